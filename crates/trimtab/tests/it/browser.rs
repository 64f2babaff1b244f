//! Reports in a headless browser: values, zoom, keyboard, dark mode,
//! phone, print, no scripts, and no network request.

use crate::devtools::Browser;
use crate::support::{have_tool, skip, trimtab};
use base64::Engine as _;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// A modelled study, its report, and a report that compares runs; created once.
static MADE: LazyLock<(tempfile::TempDir, PathBuf, PathBuf)> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let (store, study, stored) =
        (dir.path().join("s.db"), dir.path().join("study.html"), dir.path().join("stored.html"));
    let mut command = trimtab();
    command.args([
        "study",
        "--quick",
        "drive:ocz-vertex-le-100gb",
        "--policies",
        "none,online,batched",
        "--questions",
        "deleting,ageing",
    ]);
    command.args(["--quiet", "--store"]).arg(&store).arg("--report").arg(&study).assert().success();
    let listed =
        trimtab().args(["results", "list", "--json", "--store"]).arg(&store).output().unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let ids: Vec<&str> = listed["runs"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .take(2)
        .map(|run| run["id"].as_str().unwrap())
        .collect();
    trimtab()
        .args(["results", "report"])
        .args(&ids)
        .arg("--store")
        .arg(&store)
        .arg("--output")
        .arg(&stored)
        .assert()
        .success();
    trimtab()
        .args(["results", "report", "last", "--store"])
        .arg(&store)
        .arg("--output")
        .arg(&stored)
        .assert()
        .code(2);
    (dir, study, stored)
});

fn open(path: &Path, width: u32) -> Browser {
    let mut browser = Browser::start();
    browser.size(width, 900);
    browser.open(path, true);
    browser
}

/// Asserts that the page logged no error and made no network request.
fn check_quiet(browser: &Browser) {
    assert!(browser.complaints().is_empty(), "{:#?}", browser.complaints());
}

const LINES: &str = "#s1 figure[data-chart]";
const READOUT: &str = "document.querySelector('#s1 figure[data-chart] .readout').textContent";

#[test]
fn report_chart_reacts_to_pointer_zoom_and_toggles() {
    if !have_tool("chromium") {
        return skip("chromium");
    }
    let mut browser = open(&MADE.1, 1200);
    assert!(std::fs::metadata(&MADE.1).unwrap().len() < 1_500_000);
    let over = format!("{LINES} .u-over");
    browser.hover(&over, 0.0, 0.0);
    let said = browser.text(READOUT);
    assert!(said.contains("GB") && said.contains("none ") && said.contains("batched "), "{said}");
    let range = "(() => \
        { const s = document.querySelector('#s1 figure[data-chart]').chart.plot().scales.x; return s.max - s.min; })()";
    let whole = browser.number(range);
    browser.drag(&over, -100.0, 100.0);
    let zoomed = browser.number(range);
    assert!(zoomed < whole * 0.6, "{whole} {zoomed}");
    browser.value(&format!("document.querySelector('{LINES} button[title=\"Show all\"]').click()"));
    assert!((browser.number(range) - whole).abs() < whole * 0.01);
    // A hidden series has no value under the pointer.
    browser.value(&format!("document.querySelector('{LINES} .toggles button').click()"));
    browser.hover(&over, 20.0, 0.0);
    let said = browser.text(READOUT);
    assert!(!said.contains("none ") && said.contains("online "), "{said}");
    // The recommended point has its name and a ring; the axis can be changed.
    let before = browser.text(
        "document.querySelector('#s0 .u-over').parentNode.querySelector('canvas').toDataURL()",
    );
    browser.value("(() => \
        { const s = document.querySelector('#s0 select'); s.value = '1'; s.dispatchEvent(new Event('change')); })()");
    let after = browser.text(
        "document.querySelector('#s0 .u-over').parentNode.querySelector('canvas').toDataURL()",
    );
    assert_ne!(before, after);
    check_quiet(&browser);
}

#[test]
fn report_keyboard_reaches_every_control() {
    if !have_tool("chromium") {
        return skip("chromium");
    }
    let mut browser = open(&MADE.1, 1200);
    let unreachable = "(() => \
        { document.querySelectorAll('details').forEach((d) => { d.open = true; }); return [...document.querySelectorAll('a[href], button, select, summary, input, [tabindex=\"0\"]')].filter((e) => e.offsetParent !== null) .filter((e) => { e.focus(); return document.activeElement !== e; }).map((e) => e.outerHTML.slice(0, 80)); })()";
    assert_eq!(browser.value(unreachable), json!([]));
    let nameless = "[...document.querySelectorAll('button, select, input')].filter((e) => \
        !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length)).length";
    assert_eq!(browser.number(nameless), 0.0);
    browser.value(&format!("document.querySelector('{LINES} .canvas').focus()"));
    browser.key("ArrowRight");
    let first = browser.text(READOUT);
    browser.key("ArrowRight");
    let second = browser.text(READOUT);
    assert!(first.contains("none ") && first != second, "{first}; {second}");
    let range = "(() => \
        { const s = document.querySelector('#s1 figure[data-chart]').chart.plot().scales.x; return s.max - s.min; })()";
    let whole = browser.number(range);
    browser.key("+");
    assert!(browser.number(range) < whole * 0.6);
    browser.key("0");
    assert!((browser.number(range) - whole).abs() < whole * 0.01);
    check_quiet(&browser);
}

#[test]
fn report_data_and_pictures_can_be_downloaded() {
    if !have_tool("chromium") {
        return skip("chromium");
    }
    for path in [&MADE.1, &MADE.2] {
        let mut browser = open(path, 1200);
        // A picture must be drawn before it can be saved, and drawing time varies.
        let pressed = browser.number(
            "(() => \
                { window.saved = []; const blobs = new Map(); let number = 0; URL.createObjectURL = (blob) => { blobs.set('b' + ++number, blob); return '#b' + number; }; HTMLAnchorElement.prototype.click = function () { saved.push([this.download, blobs.get(this.getAttribute('href').slice(1))]); }; document.querySelectorAll('details').forEach((d) => { d.open = true; }); const buttons = [...document.querySelectorAll('button.csv, .outputs button')].filter((b) => b.textContent !== 'Copy data'); buttons.forEach((b) => b.click()); return buttons.length; })()",
        );
        browser.until(&format!("window.saved.length === {pressed}"));
        let saved = browser.value(
            "Promise.all(window.saved.map(async ([name, blob]) => [name, blob.size, \
                blob.type, (await blob.text()).slice(0, 60)]))",
        );
        let saved = saved.as_array().unwrap();
        let of =
            |kind: &str| saved.iter().filter(|s| s[2].as_str().unwrap().starts_with(kind)).count();
        assert!(of("text/csv") > 3 && of("image/png") >= 1, "{saved:?}");
        assert!(
            saved
                .iter()
                .all(|s| s[1].as_u64().unwrap() > 20 && s[0].as_str().unwrap().contains('.')),
            "{saved:?}"
        );
        check_quiet(&browser);
    }
}

#[test]
fn report_copied_data_equal_downloaded_csv() {
    if !have_tool("chromium") {
        return skip("chromium");
    }
    let mut browser = open(&MADE.1, 1200);
    browser.call(
        "Browser.grantPermissions",
        json!({ "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"] }),
    );
    browser.call("Emulation.setFocusEmulationEnabled", json!({ "enabled": true }));
    let each = |how: &str| {
        format!(
            "(async () => {{ {how} const pairs = []; let saved = null; \
                URL.createObjectURL = (blob) => {{ saved = blob; return '#'; }}; \
                HTMLAnchorElement.prototype.click = function () {{}}; \
                document.querySelectorAll('details').forEach((d) => {{ d.open = true; }}); \
                for (const outputs of document.querySelectorAll('.outputs')) {{ const named \
                = (text) => [...outputs.querySelectorAll('button')].find((b) => \
                b.textContent === text); named('CSV').click(); await clip.clear(); \
                named('Copy data').click(); await new Promise((done) => setTimeout(done, \
                100)); pairs.push([await saved.text(), await clip.read()]); }} return \
                pairs; }})()"
        )
    };
    // Twice: with the clipboard API, and with the browser's copy command for pages
    // without clipboard access.
    let asked = "const clip = \
        { clear: () => navigator.clipboard.writeText(''), read: () => navigator.clipboard.readText() };";
    let denied = "let copied = ''; document.addEventListener('copy', () => \
        { copied = document.activeElement.value; }); navigator.clipboard.writeText = () => \
        Promise.reject(new Error('no')); const clip = \
        { clear: async () => { copied = ''; }, read: async () => copied };";
    for how in [asked, denied] {
        // Simulates a user gesture, because a page may not copy without one.
        let pressed = json!({ "expression": each(how), "returnByValue": true, "awaitPromise": true, "userGesture": true });
        let pairs = browser.call("Runtime.evaluate", pressed)["result"]["value"].clone();
        let pairs = pairs.as_array().unwrap();
        assert!(pairs.len() >= 3, "{pairs:?}");
        for pair in pairs {
            let (saved, copied) = (pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
            assert!(
                saved.lines().count() > 2 && saved.lines().all(|line| line.contains(',')),
                "{saved}"
            );
            assert_eq!(
                copied.replace("\r\n", "\n").trim_end(),
                saved.replace("\r\n", "\n").trim_end()
            );
        }
    }
    check_quiet(&browser);
}

#[test]
fn report_of_two_runs_compares_and_overlays_them() {
    if !have_tool("chromium") {
        return skip("chromium");
    }
    let mut browser = open(&MADE.2, 1200);
    let page = browser.text("document.body.innerText");
    assert!(
        page.contains("B against A")
            && page.contains("B / A")
            && page.contains("All in one picture"),
        "{page}"
    );
    let names = browser.value(
        "[...document.querySelectorAll('figure[data-chart] .toggles')].map((t) => \
            t.innerText.replace(/\\s+/g, ' ').trim())",
    );
    assert!(names.as_array().unwrap().iter().any(|names| names == "A B"), "{names}");
    check_quiet(&browser);
}

#[test]
fn report_fits_phone_dark_mode_and_print() {
    if !have_tool("chromium") {
        return skip("chromium");
    }
    for path in [&MADE.1, &MADE.2] {
        let mut browser = open(path, 400);
        for width in [400, 640, 800, 1200] {
            browser.size(width, 900);
            let wide =
                "document.documentElement.scrollWidth - document.documentElement.clientWidth";
            assert_eq!(
                browser.number(wide),
                0.0,
                "nothing but tables and charts, in boxes of their own, is wider than {width}"
            );
            let main = "document.querySelector('.answer .scroll')";
            if browser.value(&format!("{main} !== null")) == json!(true) {
                assert_eq!(
                    browser.number(&format!("{main}.scrollWidth - {main}.clientWidth")),
                    0.0,
                    "the main table fits at {width}"
                );
                // In the stacked layout the column name precedes each figure.
                let named = format!(
                    "[...{main}.querySelectorAll('td')].every((c) => \
                        (getComputedStyle(c, '::before').content.length > 6) === ({width} < 720))"
                );
                assert_eq!(browser.value(&named), json!(true), "{width}");
            }
            let small = "[...document.querySelectorAll('figure')].filter((f) => f.offsetParent \
                && !f.closest('details') && ![...f.querySelectorAll('canvas')] \
                .some((c) => c.getBoundingClientRect().height > 80)).length";
            assert_eq!(browser.number(small), 0.0, "every picture is drawn at {width}");
        }
        let paper = "getComputedStyle(document.body).backgroundColor";
        let light = browser.text(paper);
        browser.media("screen", "dark");
        assert_ne!(browser.text(paper), light);
        browser.media("", "light");
        let pdf = browser.call("Page.printToPDF", json!({}))["data"].as_str().unwrap().to_owned();
        let pdf = base64::engine::general_purpose::STANDARD.decode(pdf).unwrap();
        assert!(pdf.starts_with(b"%PDF") && pdf.len() > 20_000, "{}", pdf.len());
        browser.media("print", "light");
        let drawn = "[...document.querySelectorAll('figure')].filter((f) => \
            !f.closest('details')).every((f) => f.querySelector('.canvas canvas') \
            .getBoundingClientRect().height > 80 && ![...f.querySelectorAll('.tools button')] \
            .some((b) => b.offsetParent))";
        assert_eq!(browser.value(drawn), json!(true), "paper has the pictures and no buttons");
        check_quiet(&browser);
    }
}

/// Regression: the monthly table was cut off at its ninth column although the margin had
/// room for the rest.
#[test]
fn report_tables_are_not_cut_on_wide_screen() {
    if !have_tool("chromium") {
        return skip("chromium");
    }
    for path in [&MADE.1, &MADE.2] {
        let mut browser = open(path, 1200);
        browser.value("document.querySelectorAll('details').forEach((d) => { d.open = true; })");
        let cut = "[...document.querySelectorAll('.scroll')].filter((s) => s.offsetParent && \
            s.scrollWidth > s.clientWidth).map((s) => s.innerText.slice(0, 80))";
        assert_eq!(browser.value(cut), json!([]));
        check_quiet(&browser);
    }
}

/// Regression at 400 pixels: captions in details were as wide as their tables.
#[test]
fn report_captions_fit_phone() {
    if !have_tool("chromium") {
        return skip("chromium");
    }
    for path in [&MADE.1, &MADE.2] {
        let mut browser = open(path, 400);
        browser.value("document.querySelectorAll('details').forEach((d) => { d.open = true; })");
        let wide = "[...document.querySelectorAll('.caption, button.csv')].filter((c) => \
            c.getBoundingClientRect().right > 400).map((c) => c.innerText.slice(0, 80))";
        assert_eq!(browser.value(wide), json!([]));
        let captions = "document.querySelectorAll('.caption').length";
        assert!(browser.number(captions) > 3.0);
    }
}

/// Regression at 400 pixels: the names of five points overlapped, the last ones below the
/// axis, and an axis in seconds showed milliseconds.
#[test]
fn report_mark_labels_do_not_overlap() {
    if !have_tool("chromium") {
        return skip("chromium");
    }
    let mut browser = open(&MADE.1, 400);
    for width in [400, 600, 1200] {
        browser.size(width, 900);
        browser.value(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))",
        );
        let names = browser.value(
            "(() => \
                { const chart = document.querySelector('#s0 figure[data-chart]').chart; const box = chart.plot().bbox; return chart.names().map((n) => [n.name, n.left - box.left, n.right - box.left, n.at - box.top, box.width, box.height]); })()",
        );
        let names = names.as_array().unwrap();
        let number = |name: &serde_json::Value, at: usize| name[at].as_f64().unwrap();
        assert!(!names.is_empty(), "{width}");
        for (at, a) in names.iter().enumerate() {
            assert!(
                number(a, 1) >= 0.0
                    && number(a, 2) <= number(a, 4)
                    && number(a, 3) >= 0.0
                    && number(a, 3) <= number(a, 5),
                "{width}: {a}"
            );
            for b in &names[at + 1..] {
                let apart = number(a, 2) <= number(b, 1)
                    || number(b, 2) <= number(a, 1)
                    || (number(a, 3) - number(b, 3)).abs() >= 12.0;
                assert!(apart, "{width}: {a} {b}");
            }
        }
        // A point without a label appears in the list above, with its marker shape.
        let listed = browser.text("document.querySelector('#s0 .toggles').innerText");
        assert!(["none", "online", "batched"].iter().all(|name| listed.contains(name)), "{listed}");
    }
    let label =
        browser.text("document.querySelector('#s0 figure[data-chart]').chart.plot().axes[1].label");
    assert_eq!(label, "p95 stall", "the numbers beside it have units");
    check_quiet(&browser);
}

/// Regression at 400 columns and in print: a line broke between a number and its unit.
#[test]
fn report_lines_keep_number_and_unit_together() {
    if !have_tool("chromium") {
        return skip("chromium");
    }
    let mut browser = open(&MADE.1, 400);
    // The text breaks wherever the next character lies lower.
    let broken = "(() => \
        { const found = []; const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);         while (walk.nextNode()) { const node = walk.currentNode; if (node.parentElement.closest('code, script, pre, svg, table') || !node.parentElement.offsetParent) continue;         for (const at of node.data.matchAll(/\\d (ns|µs|ms|s|min|h|B|kB|MB|GB|%)(?![\\w%])/g)) {         const place = (i) => { const r = document.createRange(); r.setStart(node, i); r.setEnd(node, i + 1); return r.getBoundingClientRect().top; };         if (place(at.index + 2) > place(at.index) + 5) found.push(node.data.slice(Math.max(0, at.index - 20), at.index + 12)); } } return found; })()";
    let expression = broken.replace("\\\\", "\\");
    let all = "document.querySelectorAll('details').forEach((d) => { d.open = true; })";
    browser.value(all);
    for width in [400, 500, 640, 800] {
        browser.size(width, 900);
        assert_eq!(browser.value(&expression), json!([]), "{width}");
    }
    browser.size(400, 900);
    browser.value("(() => { document.querySelector('main').style.width = '9rem'; })()");
    assert_eq!(browser.value(&expression), json!([]));
    let glued = "document.body.textContent.match(/\\d\\u00a0(ms|s|GB|%)/g)?.length ?? 0"
        .replace("\\\\", "\\");
    assert!(browser.number(&glued) > 10.0);
}

#[test]
fn report_answer_and_first_chart_are_above_the_fold() {
    if !have_tool("chromium") {
        return skip("chromium");
    }
    let mut browser = Browser::start();
    browser.size(1280, 900);
    browser.open(&MADE.1, true);
    for part in [".answer", "#s0 canvas"] {
        let bottom = browser
            .number(&format!("document.querySelector('{part}').getBoundingClientRect().bottom"));
        assert!(bottom <= 900.0, "{part} ends at {bottom}");
    }
    check_quiet(&browser);
}

#[test]
fn report_without_scripts_shows_answer_and_numbers() {
    if !have_tool("chromium") {
        return skip("chromium");
    }
    let mut browser = Browser::start();
    browser.size(1000, 900);
    browser.open(&MADE.1, false);
    let answer = browser.text("document.querySelector('.answer').innerText");
    assert!(
        answer.contains("USE") && answer.contains("Rule") && answer.contains("trimtab apply"),
        "{answer}"
    );
    let numbers = "[...document.querySelectorAll('section figure')].map((f) => \
        f.querySelectorAll('.numbers tr').length)";
    let numbers = browser.value(numbers);
    assert!(
        numbers.as_array().unwrap().len() >= 3
            && numbers.as_array().unwrap().iter().all(|rows| rows.as_f64().unwrap() > 2.0),
        "{numbers}"
    );
    assert_eq!(browser.number("document.querySelectorAll('.live').length"), 0.0);
    check_quiet(&browser);
}
