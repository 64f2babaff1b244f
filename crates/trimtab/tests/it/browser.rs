//! Reports in a real browser, headless: no errors on its console, no request to anywhere, charts drawn, everything within reach of the keyboard.

use crate::support::{have_tool, skip, trimtab};
use std::path::Path;

/// Runs after the page's own script, and leaves what it found in an attribute of the document.
const PROBE: &str = r#"<script>
const blocked = [];
document.addEventListener("securitypolicyviolation", (event) => blocked.push(event.blockedURI));
document.querySelectorAll("details").forEach((details) => { details.open = true; });
const reach = [...document.querySelectorAll("a[href], button, summary, input, [tabindex='0']")].filter((e) => e.offsetParent !== null);
const unreachable = reach.filter((e) => { e.focus(); return document.activeElement !== e; }).map((e) => e.outerHTML.slice(0, 80));
const saved = [];
HTMLAnchorElement.prototype.click = function () { saved.push(this.download); };
document.querySelectorAll("button.csv").forEach((button) => button.click());
const shown = [...document.querySelectorAll("figure")].filter((f) => [...f.querySelectorAll(".plot svg")].some((s) => s.getBoundingClientRect().height > 100)).length;
const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
document.documentElement.dataset.probe = JSON.stringify({
  reach: reach.length, unreachable, saved: saved.length, named: saved.every((name) => name.endsWith(".csv")),
  figures: document.querySelectorAll("figure").length, shown, wide,
  requests: performance.getEntriesByType("resource").map((r) => r.name), blocked,
});
</script>"#;

/// What the probe finds in the report at `path`, at a window of `width`.
fn probe(path: &Path, width: u32) -> serde_json::Value {
    let html = std::fs::read_to_string(path).unwrap();
    let probed = path.with_extension(format!("{width}.html"));
    std::fs::write(&probed, html.replace("</body>", &format!("{PROBE}</body>"))).unwrap();
    let profile = tempfile::tempdir().unwrap();
    let output = std::process::Command::new("timeout")
        .args(["-s", "KILL", "90", "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={width},900"))
        .arg(format!("file://{}", probed.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let errors: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let dom = String::from_utf8(output.stdout).unwrap();
    let found = dom.split("data-probe=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("the probe ran");
    serde_json::from_str(&found.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).unwrap()
}

#[test]
fn reports_work_in_a_browser_offline_and_without_a_mouse() {
    if !have_tool("chromium") {
        return skip("chromium");
    }
    let dir = tempfile::tempdir().unwrap();
    let (store, study, stored) = (dir.path().join("s.db"), dir.path().join("study.html"), dir.path().join("stored.html"));
    let mut command = trimtab();
    command.args(["study", "--quick", "--policies", "none,online", "--questions", "deleting,ageing", "--quiet", "--store"]);
    command.arg(&store).arg("--report").arg(&study).assert().success();
    trimtab().args(["results", "report", "last", "last~1", "--store"]).arg(&store).arg("--output").arg(&stored).assert().success();
    trimtab().args(["results", "report", "last", "--store"]).arg(&store).arg("--output").arg(&stored).assert().code(2);
    for (path, figures) in [(&study, 6), (&stored, 2)] {
        for width in [1200, 390] {
            let found = probe(path, width);
            let count = |key: &str| found[key].as_u64().unwrap();
            assert!(count("figures") >= figures && count("shown") == count("figures"), "{found}");
            assert!(count("reach") > 10 && found["unreachable"].as_array().unwrap().is_empty(), "{found}");
            assert!(count("saved") > 2 && found["named"] == true, "{found}");
            assert!(found["requests"].as_array().unwrap().is_empty() && found["blocked"].as_array().unwrap().is_empty(), "{found}");
            assert_eq!(found["wide"], 0, "nothing but tables and charts, in boxes of their own, is wider than the window: {found}");
        }
        assert!(std::fs::metadata(path).unwrap().len() < 2_000_000);
    }
}
