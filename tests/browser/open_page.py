"""Opens a report in a headless Chromium without network and uses it as a reader would.

usage: open_page.py PAGE.html OUT: prints a JSON object with what was seen; writes OUT.png (the
whole page), OUT-hover.png, OUT.pdf (as printed) and OUT-narrow.png (400 pixels wide). Exit code
77 where there is no Chromium. Speaks
the DevTools protocol over the browser's own pipe, so it needs nothing but Python.
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time



def fail(text):
    print(text)
    sys.exit(1)


class Browser:
    def __init__(self, program, profile):
        to_browser, self.commands = os.pipe()
        self.answers, from_browser = os.pipe()
        # The browser reads commands on 3 and writes answers on 4; first out of each other's way.
        high = [os.dup2(fd, 100 + i) for i, fd in enumerate((to_browser, from_browser))]

        def take_pipes():
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-background-networking", "--disable-component-update",
             "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=take_pipes, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (to_browser, from_browser, *high):
            os.close(fd)
        self.buffer = b""
        self.events = []
        self.next_id = 0
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]

    def message(self):
        while b"\0" not in self.buffer:
            part = os.read(self.answers, 1 << 16)
            if not part:
                fail("the browser has ended")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self.next_id += 1
        request = {"id": self.next_id, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.commands, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") != self.next_id:
                self.events.append(answer)
            elif "error" in answer:
                fail(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def wait_for(self, method):
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.message())

    def value(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in result:
            fail(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, x1, y1, x2, y2):
        left = {"button": "left", "buttons": 1, "clickCount": 1}
        self.mouse("mouseMoved", x1, y1)
        self.mouse("mousePressed", x1, y1, **left)
        for i in range(1, 6):
            self.mouse("mouseMoved", x1 + (x2 - x1) * i / 5, y1 + (y2 - y1) * i / 5, **left)
        self.mouse("mouseReleased", x2, y2, **left)

    def double_click(self, x, y):
        for count in (1, 2):
            for kind in ("mousePressed", "mouseReleased"):
                self.mouse(kind, x, y, button="left", clickCount=count)

    def complaints(self):
        """Errors and warnings of the page's scripts, and addresses it asked for."""
        errors, requests = [], []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                errors.append(params["exceptionDetails"].get("text", "exception"))
            elif event.get("method") == "Runtime.consoleAPICalled":
                errors.append(f"{params['type']}: {params['args']}")
            elif event.get("method") == "Log.entryAdded":
                errors.append(params["entry"]["text"])
            elif event.get("method") == "Network.requestWillBeSent":
                requests.append(params["request"]["url"])
        return errors, requests


# Charts whose canvas has a pixel that is not white, how many there are in all, and those that are
# a sentence because all is 0.
DRAWN = """(() => {
  const plots = [...document.querySelectorAll(".plot")];
  const drawn = plots.filter((plot) => [...plot.querySelectorAll("canvas")].some((canvas) => {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    return pixels.some((value, i) => i % 4 === 3 && value > 0);
  }));
  return {all: plots.length, drawn: drawn.length,
          empty: document.querySelectorAll(".nothing").length};
})()"""
# Colours of every map, and points of every chart of ranges.
FIGURES = """({maps: [...document.querySelectorAll("canvas.map")].map((canvas) => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return new Set(new Uint32Array(pixels.buffer)).size;
}), ranges: [...document.querySelectorAll("svg.ranges")].map((svg) =>
  svg.querySelectorAll("circle").length)})"""
LABELS = """[...document.querySelectorAll(".plot:nth-of-type(1)")].map((plot) =>
  [...plot.querySelectorAll(".dygraph-axis-label-x")].map((label) => label.textContent))"""
Y_LABELS = """[...document.querySelectorAll(".plot")].map((plot) =>
  [...plot.querySelectorAll(".dygraph-axis-label-y")].map((label) => label.textContent))"""
TOOLTIP = """[...document.querySelectorAll(".values")].filter((box) =>
  box.style.display === "block").map((box) => box.innerText)"""
# Things that stick out of the page to the right.
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def use_charts(browser, out, seen):
    """Moves the mouse over the first chart, zooms and goes back."""
    box = browser.value("""(() => { const plot = document.querySelector(".plot");
        if (plot === null) return null;
        plot.scrollIntoView({block: "center"});
        const box = plot.getBoundingClientRect();
        return {x: box.x, y: box.y, width: box.width, height: box.height}; })()""")
    if box is None:
        return
    at = lambda x, y: (box["x"] + x * box["width"], box["y"] + y * box["height"])
    browser.mouse("mouseMoved", *at(0.48, 0.5))
    browser.mouse("mouseMoved", *at(0.5, 0.5))
    seen["tooltip"] = browser.value(TOOLTIP)
    shot = browser.call("Page.captureScreenshot", format="png")
    pathlib.Path(f"{out}-hover.png").write_bytes(base64.b64decode(shot["data"]))
    seen["labels"] = browser.value(LABELS)
    seen["y labels"] = browser.value(Y_LABELS)
    browser.drag(*at(0.4, 0.5), *at(0.6, 0.5))
    seen["zoomed labels"] = browser.value(LABELS)
    time.sleep(0.6)  # two clicks in the time of one double click would be the drag's
    browser.double_click(*at(0.5, 0.5))
    time.sleep(0.1)
    seen["reset labels"] = browser.value(LABELS)
    browser.mouse("mouseMoved", 1, 1)


def visit(browser, page, out):
    browser.call("Page.enable")
    browser.call("Runtime.enable")
    browser.call("Log.enable")
    browser.call("Network.enable")
    browser.call("Network.emulateNetworkConditions", offline=True, latency=0,
                 downloadThroughput=0, uploadThroughput=0)
    size = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", **size)
    browser.call("Page.navigate", url=page.as_uri())
    browser.wait_for("Page.loadEventFired")

    seen = {"title": browser.value("document.title"), "charts": browser.value(DRAWN),
            "figures": browser.value(FIGURES),
            "overflow": browser.value(OVERFLOW), "text": browser.value("document.body.innerText")}
    shot = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                        clip={"x": 0, "y": 0, "width": 1280, "scale": 1,
                              "height": browser.value("document.documentElement.scrollHeight")})
    pathlib.Path(f"{out}.png").write_bytes(base64.b64decode(shot["data"]))

    use_charts(browser, out, seen)

    pdf = browser.call("Page.printToPDF", printBackground=False, paperWidth=8.27, paperHeight=11.69)
    pathlib.Path(f"{out}.pdf").write_bytes(base64.b64decode(pdf["data"]))
    browser.call("Emulation.setDeviceMetricsOverride", **{**size, "width": 400})
    for _ in range(30):  # charts follow the window's size a little later
        seen["overflow when narrow"] = browser.value(OVERFLOW)
        if seen["overflow when narrow"] == 0:
            break
        time.sleep(0.1)
    shot = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                        clip={"x": 0, "y": 0, "width": 400, "scale": 1, "height": 6000})
    pathlib.Path(f"{out}-narrow.png").write_bytes(base64.b64decode(shot["data"]))
    seen["errors"], seen["requests"] = browser.complaints()
    return seen


def main():
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        print("there is no chromium")
        return 77
    page, out = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            print(json.dumps(visit(browser, page, out)))
        finally:
            browser.process.kill()
            browser.process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
