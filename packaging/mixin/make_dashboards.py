#!/usr/bin/env python3
"""Writes the Grafana dashboards into a directory, by default dashboards/ next to this script."""

import json
import pathlib
import sys

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
HOST = 'instance="$instance"'
DRIVE = 'instance="$instance", device="$device"'
COLUMNS = 24
# To the other dashboards, for the same time.
LINKS = {
    "type": "dashboards",
    "title": "Trimtab",
    "tags": ["trimtab"],
    "asDropdown": True,
    "icon": "external link",
    "tooltip": "",
    "targetBlank": False,
    "includeVars": True,
    "keepTime": True,
}


def panel(kind, title, queries, unit="short", width=12, height=8):
    """A panel of the PromQL expressions in `queries`, by legend. A table shows the labels of one expression."""
    is_table = kind == "table"
    targets = [
        {
            "refId": chr(ord("A") + number),
            "datasource": SOURCE,
            "expr": expression,
            "legendFormat": legend,
            "instant": kind != "timeseries",
            "format": "table" if is_table else "time_series",
        }
        for number, (legend, expression) in enumerate(queries.items())
    ]
    made = {
        "type": kind,
        "title": title,
        "datasource": SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "gridPos": {"w": width, "h": height},
    }
    if is_table:
        hidden = {"Time": True, "__name__": True, "job": True}
        made["transformations"] = [{"id": "organize", "options": {"excludeByName": hidden}}]
    return made


def stat(title, expression, unit="short", width=4):
    return panel("stat", title, {"": expression}, unit, width, 4)


def choice(name, metric):
    query = f"label_values({metric}, {name})"
    return {"type": "query", "name": name, "datasource": SOURCE, "query": query, "refresh": 2, "sort": 1}


def dashboard(name, title, choices, panels):
    x = y = row_height = 0
    for number, one in enumerate(panels, 1):
        place = one["gridPos"]
        if x + place["w"] > COLUMNS:
            x, y, row_height = 0, y + row_height, 0
        one["id"] = number
        place.update(x=x, y=y)
        x, row_height = x + place["w"], max(row_height, place["h"])
    source = {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus"}
    return {
        "uid": f"trimtab-{name}",
        "title": title,
        "tags": ["trimtab"],
        "schemaVersion": 36,
        "version": 1,
        "editable": True,
        "time": {"from": "now-7d", "to": "now"},
        "refresh": "5m",
        "links": [LINKS],
        "templating": {"list": [source, *choices]},
        "panels": panels,
    }


def fleet():
    waits = "sum by (le) (rate(trimtab_foreground_wait_seconds_bucket[$__rate_interval]))"
    latency = {name: f"histogram_quantile({share}, {waits})" for name, share in (("median", 0.5), ("p99", 0.99))}
    longest = 'topk(20, mountpoint:trimtab_last_pass_age:seconds{policy!~"none|online"})'
    return dashboard(
        "fleet",
        "Trimtab: fleet",
        [],
        [
            stat("Hosts", "count(trimtab_build_info)"),
            stat("Filesystems", "count(trimtab_filesystem_answers)"),
            stat("TRIM blocked", 'count(trimtab_doctor_verdict{verdict="blocked"}) or vector(0)'),
            stat("Failed passes in 24 h", "sum(increase(trimtab_passes_failed_total[1d]))"),
            stat("Drives", "count(trimtab_drive_info)"),
            stat("Drives above 90 % of rated life", "count(trimtab_drive_life_used_ratio >= 0.9) or vector(0)"),
            panel("table", "Firing alerts", {"": 'ALERTS{alertname=~"Trimtab.+", alertstate="firing"}'}),
            panel("table", "Filesystems with TRIM blocked", {"": 'trimtab_doctor_verdict{verdict="blocked"}'}),
            panel("timeseries", "Filesystems by verdict", {"{{verdict}}": "verdict:trimtab_filesystems:count"}),
            panel("timeseries", "Hosts by version", {"{{version}}": "count by (version) (trimtab_build_info)"}),
            panel("table", "Longest time since the last pass", {"": longest}, "s"),
            panel("table", "Most used drives", {"": "topk(20, trimtab_drive_life_used_ratio)"}, "percentunit"),
            panel("table", "Shortest life left", {"": "bottomk(20, trimtab_drive_life_left_seconds)"}, "s"),
            panel("table", "Highest write amplification in 7 days", {"": "topk(20, device:trimtab_drive_waf:increase7d)"}),
            panel("timeseries", "Foreground latency during trim requests, all hosts", latency, "s"),
        ],
    )


def host():
    def rates(*kinds):
        return {f"{{{{mountpoint}}}} {kind}": f"rate(trimtab_{kind}_bytes_total{{{HOST}}}[$__rate_interval])" for kind in kinds}

    return dashboard(
        "host",
        "Trimtab: host",
        [choice("instance", "trimtab_build_info")],
        [
            panel("stat", "Version", {"{{version}}": f"trimtab_build_info{{{HOST}}}"}, "short", 4, 4)
            | {"options": {"textMode": "name"}},
            stat("Age of these metrics", f"time() - trimtab_daemon_written_timestamp_seconds{{{HOST}}}", "s"),
            stat("Passes in progress", f"sum(trimtab_pass_running{{{HOST}}})"),
            stat("Passes in 7 days", f"sum(increase(trimtab_passes_total{{{HOST}}}[7d]))"),
            stat("Failed passes in 7 days", f"sum(increase(trimtab_passes_failed_total{{{HOST}}}[7d]))"),
            stat("Filesystems that do not answer", f"count(trimtab_filesystem_answers{{{HOST}}} == 0) or vector(0)"),
            panel("table", "Verdicts of the doctor", {"": f"trimtab_doctor_verdict{{{HOST}}}"}),
            panel("timeseries", "Time since the last pass", {"{{mountpoint}}": f"mountpoint:trimtab_last_pass_age:seconds{{{HOST}}}"}, "s"),
            panel("timeseries", "Bytes requested and refused", rates("requested", "refused"), "Bps"),
            panel("timeseries", "Bytes that reached the drives", rates("sent"), "Bps"),
            panel(
                "timeseries",
                "Requests",
                {
                    "{{mountpoint}} carried out": f"rate(trimtab_requests_total{{{HOST}}}[$__rate_interval])",
                    "{{mountpoint}} refused": f"rate(trimtab_requests_refused_total{{{HOST}}}[$__rate_interval])",
                    "{{mountpoint}} commands at the drives": f"rate(trimtab_sent_commands_total{{{HOST}}}[$__rate_interval])",
                },
                "reqps",
            ),
            panel(
                "timeseries",
                "Time inside trim requests",
                {"{{mountpoint}}": f"rate(trimtab_trimming_seconds_total{{{HOST}}}[$__rate_interval])"},
                "percentunit",
            ),
            panel(
                "timeseries",
                "Longest foreground latency during a trim request since the daemon started",
                {"{{mountpoint}}": f"trimtab_foreground_wait_max_seconds{{{HOST}}}"},
                "s",
            ),
            panel("table", "Drives", {"": f"trimtab_drive_life_used_ratio{{{HOST}}}"}, "percentunit"),
        ],
    )


def drive():
    def of(metric):
        return f"trimtab_drive_{metric}{{{DRIVE}}}"

    return dashboard(
        "drive",
        "Trimtab: drive",
        [choice("instance", "trimtab_drive_info"), choice("device", 'trimtab_drive_info{instance="$instance"}')],
        [
            stat("Rated life used", of("life_used_ratio"), "percentunit"),
            stat("Life left at the present rate", of("life_left_seconds"), "s"),
            stat("Host writes", of("host_written_bytes_total"), "decbytes"),
            stat("Write amplification since new", of("waf_ratio")),
            stat("Power-on time", of("power_on_seconds_total"), "s"),
            stat("Age of the last reading", f"time() - {of('read_timestamp_seconds')}", "s"),
            panel("table", "Identity", {"": of("info")}),
            panel("timeseries", "Rated life used", {"used": of("life_used_ratio")}, "percentunit"),
            panel(
                "timeseries",
                "Bytes written a day",
                {"host": f"increase({of('host_written_bytes_total')}[1d])", "flash": f"increase({of('nand_written_bytes_total')}[1d])"},
                "decbytes",
            ),
            panel(
                "timeseries",
                "Write amplification",
                {"7 days": f"device:trimtab_drive_waf:increase7d{{{DRIVE}}}", "since new": of("waf_ratio")},
            ),
            panel("timeseries", "Temperature", {"drive": of("temperature_celsius")}, "celsius"),
            panel("timeseries", "Power cuts without preparation", {"total": of("unsafe_shutdowns_total")}),
        ],
    )


def main():
    directory = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "dashboards"
    directory.mkdir(exist_ok=True)
    for name, made in {"fleet": fleet(), "host": host(), "drive": drive()}.items():
        text = json.dumps(made, indent=1) + "\n"
        (directory / f"{name}.json").write_text(text)


if __name__ == "__main__":
    main()
