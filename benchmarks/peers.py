"""A Python environment with the programs that NarrowGauge is measured against."""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PEERS = pathlib.Path(os.environ.get("NG_PEERS", ROOT / "build" / "peers"))
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(PEERS / "compiled"))  # torch.compile's files
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"  # a tenth of the size of the default one


def has(python, modules):
    command = [python, "-c", "import " + ", ".join(modules)]
    return python.exists() and subprocess.run(command, capture_output=True).returncode == 0


def output_of(command):
    """What a command prints as JSON."""
    return json.loads(subprocess.run([str(part) for part in command], check=True,
                                     stdout=subprocess.PIPE).stdout)


def peer_python(*modules):
    """Python of $NG_PEERS/venv (build/peers/venv) that has torch, numpy and `modules`."""
    python = PEERS / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    if not has(python, ["torch", "numpy"]):
        print(f"installing PyTorch into {PEERS / 'venv'} (a few GB where no CPU-only wheel is "
              "found)", file=sys.stderr, flush=True)
        subprocess.run([ROOT / "scripts" / "install-packages",
                        ROOT / "benchmarks" / "packages.txt"], check=True)
        PEERS.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", PEERS / "venv"], check=True)
        cpu_only = pip + ["--retries", "0", "--timeout", "10", "--index-url", CPU_WHEELS, "torch"]
        if subprocess.run(cpu_only, capture_output=True).returncode != 0:
            subprocess.run(pip + ["torch"], check=True)
        subprocess.run(pip + ["numpy"], check=True)
    if modules and not has(python, modules):
        subprocess.run(pip + list(modules), check=True)
    return python
