"""Thirty days of a fleet in a real Prometheus: thirty_days.py MIXIN HOSTS FILE.prom.

Writes hourly samples of HOSTS hosts as OpenMetrics with timestamps, imports them with promtool,
imports the recording rules of MIXIN, and evaluates each alert's expression over the whole time.
Names and labels come from FILE.prom, which the program wrote. Values come from the histories of
`Host`. Metrics that no rule uses are left out.

Fails unless each fault raises its alerts on its own host, in time, and nothing else fires.
"""
import json
import math
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections import defaultdict
from pathlib import Path

HOUR, DAY, HOURS = 3600, 86400, 30 * 24
START = 1_704_067_200  # 2024-01-01
FOLLOWED = ["trimtab_passes_failed_total", "trimtab_requests_refused_total"]

# Fault: first and last hour at which it may begin, its alert, and the hours after which that fires
# at the latest.
FAULTS = {
    "blocked layer": (24, 480, "TrimtabBlocked", 2),
    "lying drive": (24, 360, "TrimtabWafHigh", 192),
    "refusing drive": (24, 480, "TrimtabRequestsRefused", 2),
    "failing pass": (24, 480, "TrimtabPassFailed", 2),
    "no pass": (24, 240, "TrimtabPassOverdue", 17 * 24),
    "silent filesystem": (600, 680, "TrimtabFilesystemSilent", 2),
    "stale daemon": (600, 680, "TrimtabDaemonStale", 3),
    "worn drive": (24, 600, "TrimtabDriveWorn", 26),
    "drive near its end": (24, 480, "TrimtabDriveLifeShort", 7 * 24),
    "wear not read": (24, 480, "TrimtabWearStale", 7 * 24),
    "dead drive": (24, 480, "TrimtabDriveUnread", 4 * 24),
    "unreadable file": (24, 600, "TrimtabTextFileUnreadable", 2),
}


class Host:
    """One host: what happens to it, and its samples hour by hour."""

    def __init__(self, number, fault):
        rng = self.rng = random.Random(f"host {number}")
        self.name, self.fault = f"host{number:04}", fault
        first, last, *_ = FAULTS.get(fault, (HOURS, HOURS))
        self.begin = rng.randint(first, last)
        # A server is off for an hour or two once. A notebook is off for days, three times. Some
        # hosts join the fleet late.
        is_notebook = not fault and rng.random() < 0.1
        is_late = not fault and rng.random() < 0.2
        self.off = set(range(rng.randrange(240) if is_late else 0))
        for _ in range(3 if is_notebook else 1):
            hours = rng.randint(36, 144) if is_notebook else rng.randint(1, 2)
            at = rng.randrange(1, HOURS)
            if abs(at - self.begin) > 4:
                self.off.update(range(at, at + hours))
        # Three in ten healthy hosts have each short fault for one sample.
        has_blips = not fault and rng.random() < 0.3
        kinds = ("blocked", "silent", "broken") if has_blips else ()
        self.blips = {kind: rng.randrange(HOURS) for kind in kinds}
        self.policy = rng.choices(["idle", "batched", "online", "none"], [14, 3, 2, 1])[0]
        if fault == "no pass":
            self.policy = "idle"
        verdicts = ["reaches", "not-needed", "unknown", "accepted"]
        self.verdict = rng.choices(verdicts, [85, 5, 5, 5])[0]
        self.clock_error = rng.randint(-300, 300)
        # Passes come weekly, a busy host's up to four days late. One that is due while the host is
        # off starts when it is on again.
        at, self.passes = rng.randint(-7 * 24, -1), []
        while at < HOURS:
            self.passes.append(at)
            at += 7 * 24 + (0 if fault else rng.randrange(4 * 24))
            while at in self.off:
                at += 1
        # The drive. Its counters are read daily; a healthy host misses two days.
        self.kind = rng.choices(["ssd", "no NAND counter", "hard disk"], [6, 3, 1])[0]
        if fault in ("lying drive", "worn drive", "drive near its end"):
            self.kind = "ssd"
        self.missed = set() if fault else {rng.randrange(30) for _ in range(2)}
        self.daily = 10 ** rng.uniform(9, 12.3)
        self.waf = rng.uniform(1.05, 4.5)
        if fault == "lying drive":
            self.daily, self.waf = max(self.daily, 60e9), rng.uniform(1.05, 3)
        self.step = rng.choice([512_000, 32 << 20, 1 << 30, 64 << 30])
        self.used = rng.uniform(0, 0.8)
        self.host_written = 10 ** rng.uniform(12, 14)
        self.nand_written = self.host_written * self.waf
        self.reading, self.counted = {}, dict.fromkeys(FOLLOWED, 0)

    def samples(self, hour):
        """(metric, value, labels to change) of this hour. Nothing while the host is off."""
        fault = self.fault if hour >= self.begin else None
        if hour in self.off:
            self.counted = dict.fromkeys(FOLLOWED, 0)
            return
        # Some hours write fifteen times as much as others.
        more = self.daily / 24 * self.rng.choice([0.2, 0.5, 1, 1, 1, 3])
        self.host_written += more
        self.nand_written += more * (7 if fault == "lying drive" else self.waf)
        if hour % 24 == 3 and hour // 24 not in self.missed and fault != "wear not read":
            self.read_wear(hour, fault)
        for name, value in self.reading.items():
            yield name, value, {}
        is_broken = fault == "unreadable file" or hour == self.blips.get("broken")
        yield "node_textfile_scrape_error", int(is_broken), {}
        if not is_broken:
            yield from self.daemon(hour, fault)

    def read_wear(self, hour, fault):
        """The drive's counters and the program's estimates."""
        if fault == "dead drive":
            self.reading = {"trimtab_drive_unread": 1}
            return
        used = 0.9 if fault == "worn drive" else self.used + hour / HOURS * 0.01
        days_left = 90 if fault == "drive near its end" else 700
        if hour < 48 and not fault and self.rng.random() < 0.1:
            days_left = 100  # from two readings a day apart
        counted = [n // self.step * self.step for n in (self.host_written, self.nand_written)]
        self.reading = {
            "trimtab_drive_read_timestamp_seconds": START + hour * HOUR,
            "trimtab_drive_host_written_bytes_total": counted[0],
        }
        if self.kind == "ssd":
            self.reading["trimtab_drive_nand_written_bytes_total"] = counted[1]
        if self.kind != "hard disk":
            self.reading["trimtab_drive_life_used_ratio"] = math.floor(used * 100) / 100
            self.reading["trimtab_drive_life_left_seconds"] = days_left * DAY

    def daemon(self, hour, fault):
        if fault == "stale daemon":
            hour = self.begin - 1
        policy = {"policy": self.policy}
        written = START + hour * HOUR + self.clock_error
        yield "trimtab_daemon_written_timestamp_seconds", written, {}
        is_silent = fault == "silent filesystem" or hour == self.blips.get("silent")
        yield "trimtab_filesystem_answers", int(not is_silent), policy
        if fault == "failing pass" and hour == self.begin:
            self.counted["trimtab_passes_failed_total"] += 1
        if fault == "refusing drive" and (hour - self.begin) % 24 == 0:
            self.counted["trimtab_requests_refused_total"] += 40
        for name, value in self.counted.items():
            yield name, value, policy
        until = self.begin if fault in ("no pass", "silent filesystem") else hour
        last = max(at for at in self.passes if at <= until)
        if self.policy not in ("online", "none"):
            yield "trimtab_last_pass_timestamp_seconds", START + last * HOUR, policy
        is_blocked = fault == "blocked layer" or hour == self.blips.get("blocked")
        verdict = "blocked" if is_blocked else self.verdict
        layers = "" if verdict == "reaches" else "dm-0 home [crypt]"
        yield "trimtab_doctor_verdict", 1, policy | {"verdict": verdict, "layers": layers}


def templates(file):
    """The labels of each metric, as the program writes them."""
    found = {"node_textfile_scrape_error": {}}
    for line in Path(file).read_text().splitlines():
        if sample := re.fullmatch(r"(\w+)\{(.*)\} \S+", line):
            found[sample[1]] = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', sample[2]))
    return found


def write(hosts, found, path):
    """Returns the number of series and of samples."""
    series, samples = {}, 0
    with open(path, "w") as out:
        for hour in range(HOURS):
            at = START + hour * HOUR
            for host in hosts:
                for name, value, changes in host.samples(hour):
                    key = (host.name, name, *changes.values())
                    if key not in series:
                        unknown = changes.keys() - found[name].keys()
                        assert not unknown, f"{name} has no label {unknown}"
                        labels = {"instance": host.name} | found[name] | changes
                        text = ",".join(f'{k}="{v}"' for k, v in labels.items())
                        series[key] = f"{name}{{{text}}}"
                    out.write(f"{series[key]} {value:.15g} {at}\n")
                    samples += 1
        out.write("# EOF\n")
    return len(series), samples


class Prometheus:
    """A server over the blocks in `data`, on loopback."""

    def __init__(self, scratch, data, mixin):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        config = scratch / "prometheus.yml"
        rules = [str(mixin / name) for name in ("rules.yaml", "alerts.yaml")]
        config.write_text(json.dumps({"global": {"evaluation_interval": "1h"}, "rule_files": rules}))
        # One sample an hour must stay visible for an hour, and no longer.
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={data}",
             f"--web.listen-address={self.url[7:]}", "--storage.tsdb.retention.time=100y",
             "--query.lookback-delta=59m", "--query.timeout=10m", "--log.level=error"])

    def __enter__(self):
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{self.url}/-/ready").read()
                return self
            except OSError:
                assert self.process.poll() is None, "prometheus does not start"
                time.sleep(0.1)
        raise SystemExit("prometheus does not answer")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def get(self, path, **parameters):
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}") as answer:
            return json.load(answer)["data"]

    def alerts(self):
        """(name, expression, seconds of `for`) of every alert, as Prometheus reads the files."""
        for group in self.get("rules", type="alert")["groups"]:
            for rule in group["rules"]:
                yield rule["name"], rule["query"], rule["duration"]

    def firing(self, query, duration):
        """Hours at which the alert fires, by host: its expression has held for `duration`."""
        answer = self.get("query_range", query=query, start=START, end=START + (HOURS - 1) * HOUR,
                          step=HOUR)
        hours = defaultdict(list)
        for series in answer["result"]:
            since, last = None, None
            for at, _ in series["values"]:
                if last is None or at - last > HOUR:
                    since = at
                last = at
                if at - since >= duration:
                    hours[series["metric"]["instance"]].append((int(at) - START) // HOUR)
        return hours


def promtool(kind, *arguments):
    """Imports in few blocks: one every two hours takes minutes."""
    command = ["promtool", "tsdb", "create-blocks-from", "--max-block-duration=744h", kind]
    subprocess.run([*command, *arguments], check=True, stdout=subprocess.DEVNULL)


def main():
    mixin, count, file = Path(sys.argv[1]).resolve(), int(sys.argv[2]), sys.argv[3]
    each = max(1, count // 100)
    faults = [fault for fault in FAULTS for _ in range(each)]
    faults += [None] * (count - len(faults))
    random.Random(1).shuffle(faults)
    hosts = [Host(number, fault) for number, fault in enumerate(faults)]
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        text, data = scratch / "samples.txt", scratch / "data"
        series, samples = write(hosts, templates(file), text)
        promtool("openmetrics", "-q", text, data)
        text.unlink()
        with Prometheus(scratch, data, mixin) as server:
            promtool("rules", "-q", f"--url={server.url}", f"--start={START}",
                     f"--end={START + (HOURS - 1) * HOUR}", "--eval-interval=1h",
                     f"--output-dir={data}", mixin / "rules.yaml")
        with Prometheus(scratch, data, mixin) as server:
            fired = {name: server.firing(*rule) for name, *rule in server.alerts()}
    require_expected(hosts, fired)
    print(f"{count} hosts, {series} series, {samples} samples, {len(fired)} alerts: "
          "each fault was found, and nothing else fired\n")
    print("| fault | alert | hosts | hours until it fired |\n|---|---|---|---|")
    for fault, (_, _, alert, _) in FAULTS.items():
        delays = [fired[alert][host.name][0] - host.begin for host in hosts if host.fault == fault]
        print(f"| {fault} | `{alert}` | {len(delays)} | {min(delays)} to {max(delays)} |")


def require_expected(hosts, fired):
    """Ends the program if an alert is missing, late, early or on another host."""
    untested = fired.keys() - {alert for _, _, alert, _ in FAULTS.values()}
    wrong = [f"no fault raises {name}" for name in untested]
    for host in hosts:
        _, _, expected, limit = FAULTS.get(host.fault, (None, None, None, None))
        subject = f"{host.name} ({host.fault or 'healthy'}, from hour {host.begin})"
        for name in fired:
            hours = fired[name].get(host.name, [])
            if name != expected and hours:
                wrong.append(f"{subject}: false alarm {name} at hour {hours[0]}")
            elif name == expected and (not hours or not 0 <= hours[0] - host.begin <= limit):
                wrong.append(f"{subject}: {name} first fires at {hours[:1]}")
    if wrong:
        raise SystemExit("\n".join(wrong[:50]) + f"\n{len(wrong)} wrong")


main()
