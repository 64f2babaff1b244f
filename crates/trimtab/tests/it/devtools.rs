//! Headless Chromium, controlled through its debugging pipe: no port, no network.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A browser with one page.
pub struct Browser {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: String,
    number: u64,
    /// Errors, console messages and requests, in the order received.
    pub seen: Vec<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts the browser with an empty page. All host names fail to resolve.
    pub fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The browser reads commands from descriptor 3 and answers on descriptor 4.
        let mut process = Command::new("timeout")
            .args([
                "-s",
                "KILL",
                "300",
                "sh",
                "-c",
                "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null",
                "chromium",
            ])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--remote-debugging-pipe",
                "--host-resolver-rules=MAP * ~NOTFOUND",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (to, from) =
            (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        let mut browser = Self {
            process,
            to,
            from,
            session: String::new(),
            number: 0,
            seen: Vec::new(),
            _profile: profile,
        };
        let target =
            browser.call("Target.createTarget", json!({ "url": "about:blank" }))["targetId"]
                .clone();
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sends a protocol command and returns its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.to.write_all(message.to_string().as_bytes()).unwrap();
        self.to.write_all(b"\0").unwrap();
        self.to.flush().unwrap();
        loop {
            let message = self.message();
            if message["id"] == json!(self.number) {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
            self.note(message);
        }
    }

    fn message(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "the browser has ended");
        serde_json::from_slice(&bytes).unwrap()
    }

    fn note(&mut self, message: Value) {
        let method = message["method"].as_str().unwrap_or_default();
        if [
            "Runtime.exceptionThrown",
            "Runtime.consoleAPICalled",
            "Log.entryAdded",
            "Network.requestWillBeSent",
        ]
        .contains(&method)
        {
            self.seen.push(message);
        }
    }

    /// Opens a file; with `scripts`, waits until its script has finished.
    pub fn open(&mut self, path: &Path, scripts: bool) {
        self.call("Emulation.setScriptExecutionDisabled", json!({ "value": !scripts }));
        self.call("Page.navigate", json!({ "url": format!("file://{}", path.display()) }));
        let began = Instant::now();
        loop {
            let ready = if scripts {
                "document.documentElement?.dataset.ready === 'yes'"
            } else {
                "document.readyState === 'complete'"
            };
            if self.value(&format!("location.protocol === 'file:' && {ready}")) == json!(true) {
                return;
            }
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "the page is not ready: {:?}",
                self.seen
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The value of a JavaScript expression.
    pub fn value(&mut self, expression: &str) -> Value {
        let result = self.call(
            "Runtime.evaluate",
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true }),
        );
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// The value of an expression as a number.
    pub fn number(&mut self, expression: &str) -> f64 {
        self.value(expression).as_f64().unwrap_or_else(|| panic!("{expression} is no number"))
    }

    /// The value of an expression as text.
    pub fn text(&mut self, expression: &str) -> String {
        self.value(expression)
            .as_str()
            .unwrap_or_else(|| panic!("{expression} is no text"))
            .to_owned()
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, expression: &str) {
        let began = Instant::now();
        while self.value(expression) != json!(true) {
            assert!(began.elapsed() < Duration::from_secs(120), "never: {expression}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sets the window size in pixels.
    pub fn size(&mut self, width: u32, height: u32) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false }),
        );
        self.value(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() \
            => done(true))))",
        );
    }

    /// The centre of an element, after scrolling it into view.
    fn place(&mut self, selector: &str) -> (f64, f64) {
        let place = format!(
            "(() => {{ const e = document.querySelector({selector:?}); \
                e.scrollIntoView({{ block: 'center' }}); const r = \
                e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }})()"
        );
        let place = self.value(&place);
        (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
    }

    /// Moves the pointer to a position in an element, in pixels from its centre.
    pub fn hover(&mut self, selector: &str, dx: f64, dy: f64) {
        let (x, y) = self.place(selector);
        for step in [5.0, 0.0] {
            self.call(
                "Input.dispatchMouseEvent",
                json!({ "type": "mouseMoved", "x": x + dx - step, "y": y + dy }),
            );
        }
    }

    /// Drags from one position in an element to another.
    pub fn drag(&mut self, selector: &str, from: f64, to: f64) {
        let (x, y) = self.place(selector);
        let event = |kind: &str, at: f64, buttons: u8| json!({ "type": kind, "x": x + at, "y": y, "button": "left", "buttons": buttons, "clickCount": 1 });
        self.call(
            "Input.dispatchMouseEvent",
            json!({ "type": "mouseMoved", "x": x + from, "y": y }),
        );
        self.call("Input.dispatchMouseEvent", event("mousePressed", from, 1));
        for step in 1..=4 {
            let at = from + (to - from) * f64::from(step) / 4.0;
            self.call("Input.dispatchMouseEvent", json!({ "type": "mouseMoved", "x": x + at, "y": y, "button": "left", "buttons": 1 }));
        }
        self.call("Input.dispatchMouseEvent", event("mouseReleased", to, 0));
    }

    /// Presses a key, given as its character or its name.
    pub fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({ "type": kind, "key": key, "code": key }));
        }
    }

    /// Emulates a media type and a colour scheme.
    pub fn media(&mut self, media: &str, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "media": media, "features": features }));
    }

    /// Errors, and requests for anything but the page itself.
    pub fn complaints(&self) -> Vec<String> {
        let own = |message: &Value| {
            let url = message["params"]["request"]["url"].as_str().unwrap_or_default();
            url.starts_with("file://") && message["params"]["type"] == "Document"
                || url.starts_with("data:,")
        };
        self.seen
            .iter()
            .filter(|m| m["method"] != "Network.requestWillBeSent" || !own(m))
            .map(Value::to_string)
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
