"""Reads the events of a run's folder with TensorBoard's own reader.

usage: read_events.py VENV FOLDER: prints {tag: [[step, value], ...]}. Where this Python has no
tensorboard it is installed into VENV. Exit code 77 where that fails: no network, or no venv.
"""

import json
import os
import subprocess
import sys

try:
    from tensorboard.backend.event_processing import event_accumulator
except ImportError:
    event_accumulator = None


def run_in(venv):
    """Makes the environment where it is missing and runs this script there."""
    python = os.path.join(venv, "bin", "python")
    marker = os.path.join(venv, "complete")
    if not os.path.exists(marker):
        install = [[sys.executable, "-m", "venv", "--clear", venv],
                   [python, "-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "20",
                    "tensorboard"]]
        for command in install:
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=400)
            except (OSError, subprocess.TimeoutExpired) as error:
                print(f"tensorboard cannot be installed: {error}")
                return 77
            if done.returncode != 0:
                last = (done.stderr.strip() or "no reason given").splitlines()[-1]
                print(f"tensorboard cannot be installed: {last}")
                return 77
        open(marker, "w").close()
    return subprocess.run([python, *sys.argv], env={**os.environ, "NG_IN_VENV": "1"}).returncode


def main():
    venv, folder = sys.argv[1:]
    if event_accumulator is None:
        if "NG_IN_VENV" in os.environ:
            print("tensorboard was installed but cannot be imported")
            return 1
        return run_in(venv)
    events = event_accumulator.EventAccumulator(
        folder, size_guidance={event_accumulator.SCALARS: 0})  # 0: all of them
    events.Reload()
    print(json.dumps({tag: [[event.step, event.value] for event in events.Scalars(tag)]
                      for tag in events.Tags()["scalars"]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
