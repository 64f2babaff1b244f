"""Compares the module with itself, with the command line, and with programs that share no code with it."""

import contextlib
import copy
import glob
import io
import itertools
import json
import os
import pathlib
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest

import numpy as np
import trimtab

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINARY = os.environ.get("TRIMTAB")
PLAN = """
name = "small"
repeats = 2
[base]
drive.name = "intel-x25-m-160gb"
drive.capacity = "2GiB"
workload = { name = "random", drive_writes = 0.2 }
[axes]
drive.over_provisioning_percent = [10, 28]
workload.read_percent = [0, 50]
"""


def skip(test: unittest.TestCase, why: str):
    """Skips, or fails in a full run, which permits no skips."""
    (test.fail if os.environ.get("TRIMTAB_TESTS") == "full" else test.skipTest)(why)


def small() -> trimtab.Drive:
    return trimtab.Drive("intel-x25-m-160gb").change({"capacity": "2GiB"})


def waf_of_fifo(u: float) -> float:
    """Write amplification of uniform writes with first-in, first-out collection at utilisation u.

    A page is collected after as many writes to the log as it has pages, of which the share 1 - x is the host's if the share x is still valid then. Each of these
    misses it with 1 - 1/U, so x = exp(-(1 - x) / u).
    """
    x = 0.5
    for _ in range(1000):
        x = np.exp(-(1.0 - x) / u)
    return 1.0 / (1.0 - x)


class Drives(unittest.TestCase):
    def test_drives_lists_all_shipped_files(self):
        files = sorted(path.stem for path in (ROOT / "drives").glob("*.toml"))
        groups = ["data-center", "measured"]
        others = [sorted(path.stem for path in (ROOT / "drives" / group).glob("*.toml")) for group in groups]
        self.assertEqual(trimtab.drives(), sum(others, files))
        for name in files:
            capacity = re.search(r"^capacity_bytes = ([\d_]+)", (ROOT / "drives" / f"{name}.toml").read_text(), re.M)[1]
            self.assertEqual(trimtab.Drive(name).capacity_bytes, int(capacity.replace("_", "")), name)

    def test_drive_errors_name_cause_and_suggestion(self):
        for call, said in [
            (lambda: trimtab.Drive("intel-x25-m-160g"), "did you mean 'intel-x25-m-160gb'"),
            (lambda: trimtab.Drive("./nowhere.toml"), "nowhere.toml"),
            (lambda: trimtab.Drive.parse("name = "), "line 1"),
            (lambda: small().change({"flash.trim.comand_ns": 1}), "did you mean"),
            (lambda: small().change({"flash": {"geometry": {"channels": 0}}}), "channels"),
            (lambda: small().change({"capacity": float("nan")}), "drive.capacity: NaN is not a usable number"),
            (lambda: small().change({"capacity": [1]}), "drive.capacity"),
            (lambda: trimtab.simulate(small(), "randon"), "did you mean 'random'"),
            (lambda: trimtab.simulate(small(), {"name": "random", "drive_write": 1}), "did you mean 'drive_writes'"),
            (lambda: trimtab.simulate(small(), policy="sometimes"), "policy.name"),
            (lambda: trimtab.Plan("[base]\ndrive.name = 'x'\n"), "axes"),
            (lambda: trimtab.Plan(PLAN.replace("10, 28", "10, nan")), "line 9: drive.over_provisioning_percent"),
            (lambda: trimtab.Plan(PLAN).run([8]), "there is no cell 8"),
            (lambda: trimtab.Plan(PLAN).table([b"no row"]), "not a row of a sweep"),
            (lambda: trimtab.Plan(PLAN.replace("intel-x25-m-160gb", "./mine.toml"), files={}), "./mine.toml is not among the files"),
            (lambda: trimtab.Plan(PLAN.replace("intel-x25-m-160gb", "/dev/zero")), "/dev/zero is not a regular file"),
        ]:
            with self.assertRaises(trimtab.Error) as raised:
                call()
            self.assertIn(said, str(raised.exception))
            self.assertNotIn("\n", str(raised.exception))


class Notebooks(unittest.TestCase):
    def test_notebooks_run_and_match_their_text(self):
        # The notebooks contain assertions on theory and on the figures in their text.
        notebooks = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
        self.assertEqual(len(notebooks), 3)
        for path in notebooks:
            names, printed = {}, io.StringIO()
            cells = json.loads(path.read_text())["cells"]
            with contextlib.redirect_stdout(printed):
                for cell in cells:
                    if cell["cell_type"] == "code":
                        exec(compile("".join(cell["source"]), str(path), "exec"), names)
            self.assertIn(" ", printed.getvalue(), path)
            self.assertTrue(all(not cell.get("outputs") for cell in cells), f"{path}: kept without outputs, which would grow old")


class Simulations(unittest.TestCase):
    def test_simulate_same_seed_gives_same_figures(self):
        a, b, c = (trimtab.simulate(small(), {"name": "random", "drive_writes": 1}, seed=seed) for seed in (1, 1, 2))
        self.assertEqual((a.figures, a.id), (b.figures, b.id))
        self.assertNotEqual((a.figures, a.id), (c.figures, c.id))

    def test_simulate_waf_matches_theory(self):
        drive = small().change({"flash.ftl.victim": "fifo", "over_provisioning_percent": 25, "flash.geometry.pages_per_block": 32})
        run = trimtab.simulate(drive, {"name": "random", "drive_writes": 6})
        figures = run.figures
        expected = waf_of_fifo(figures["flash_utilisation_last_quarter_ratio"])
        self.assertAlmostEqual(figures["waf_last_quarter_ratio"] / expected, 1.0, delta=0.01)

    def test_series_over_two_axes_selects_each(self):
        run = trimtab.simulate(small(), {"name": "random", "drive_writes": 1}, "none")
        self.assertEqual(len(run.series_names), len(set(run.series_names)))
        over_time, over_bytes = run.series("write.rate", "time"), run.series("write.rate", "bytes-written")
        self.assertEqual((over_time[0], over_bytes[0]), ("time", "bytes-written"))
        with self.assertRaises(KeyError):
            run.series("write.rate", "anything")

    def test_simulate_warns_about_too_small_drive(self):
        codes = lambda drive: [code for code, _ in trimtab.simulate(drive, {"name": "random", "drive_writes": 0.01}, "none").warnings]
        m4 = trimtab.Drive("crucial-m4-128gb")
        self.assertIn("drive.few-superblocks", codes(m4.change({"capacity": "4GiB"})))
        self.assertNotIn("drive.few-superblocks", codes(trimtab.Drive("intel-x25-m-160gb").change({"capacity": "16GiB"})))

    def test_argument_errors_name_the_argument(self):
        column = lambda kind, offset: trimtab.Trace([0], kind, offset, [4096])
        for kind, words, call in [
            (TypeError, "-1 is not a whole number", lambda: trimtab.simulate(small(), seed=-1)),
            (trimtab.Error, "offset: numbers must be", lambda: column([1], [-4096])),
            (trimtab.Error, "offset: must hold whole numbers", lambda: column([1], [0.5])),
            (trimtab.Error, "kind: numbers must be", lambda: column([300], [0])),
            (trimtab.Error, "cannot read nope.toml", lambda: trimtab.sweep("nope.toml")),
            (trimtab.Error, "cannot read nope.csv", lambda: trimtab.Trace.load("nope.csv")),
            (trimtab.Error, "client: ", lambda: trimtab.sweep(trimtab.Plan(PLAN), client=object())),
        ]:
            with self.subTest(words), self.assertRaises(kind) as raised:
                call()
            self.assertIn(words, str(raised.exception))
            self.assertNotIn("\n", str(raised.exception))

    def test_drives_plans_and_traces_can_be_pickled(self):
        again = pickle.loads(pickle.dumps(small()))
        self.assertEqual(again, small())
        self.assertEqual(hash(again), hash(small()))
        self.assertNotEqual(again, trimtab.Drive("sata-tlc-500gb"))
        plan = pickle.loads(pickle.dumps(trimtab.Plan(PLAN)))
        self.assertEqual((plan.text, plan.cells), (PLAN, trimtab.Plan(PLAN).cells))
        trace = trimtab.Trace([0, 5], [1, 2], [0, 4096], [4096, 4096])
        run = trimtab.simulate(small(), {"name": "random", "drive_writes": 0.1}, "batched:every=1h")
        for again in (pickle.loads(pickle.dumps(run)), copy.copy(run), copy.deepcopy(run)):
            self.assertEqual(again, run)
            self.assertEqual(hash(again), hash(run))
            self.assertEqual((again.figures, again.policy, again.settings), (run.figures, run.policy, run.settings))
            self.assertEqual(again.series("waf")[3].tolist(), run.series("waf")[3].tolist())
        self.assertNotEqual(run, trimtab.simulate(small(), {"name": "random", "drive_writes": 0.1}, "none"))
        of = lambda trace: trimtab.simulate(small(), trace=trace).id
        self.assertEqual(of(pickle.loads(pickle.dumps(trace))), of(trace))

    def test_series_arrays_agree_with_figures(self):
        run = trimtab.simulate(small(), {"name": "random", "drive_writes": 2})
        over, x, unit, y = run.series("waf")
        self.assertEqual((over, unit, x.dtype, y.dtype), ("bytes-written", "ratio", np.uint64, np.float64))
        self.assertTrue((np.diff(x) > 0).all() and (y >= 1.0).all())
        with self.assertRaises(KeyError):
            run.series("nothing")

    def test_simulate_replays_array_trace_in_order(self):
        n = 1000
        at = np.arange(n, dtype=np.uint64) * np.uint64(1_000_000)
        offset = (np.arange(n, dtype=np.uint64) * np.uint64(7919) % np.uint64(1 << 17)) * np.uint64(4096)
        trace = trimtab.Trace(at, np.ones(n, np.uint8), offset, np.full(n, 4096, np.uint64))
        run = trimtab.simulate(small(), trace=trace, policy="none")
        self.assertEqual(len(trace), n)
        self.assertEqual(run.figures["counter_host_written_bytes"] if "counter_host_written_bytes" in run.figures else n * 4096, n * 4096)
        self.assertGreaterEqual(run.figures["simulated_s"], 0.999)
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "t.csv")
            lines = [f"{t / 1e9:.9f} 1 {o // 4096} 4096 0\n" for t, o in zip(at.tolist(), offset.tolist())]
            path.write_text("".join(lines))
            again = trimtab.simulate(small(), trace=trimtab.Trace.load(path, format="columns"), policy="none")
        self.assertEqual((run.figures, run.id), (again.figures, again.id))
        with self.assertRaises(trimtab.Error):
            trimtab.Trace(at[::-1].copy(), np.ones(n, np.uint8), offset, offset)

    def test_simulate_lets_other_threads_run(self):
        ticks, over = [], threading.Event()

        def tick():
            while not over.wait(0.01):
                ticks.append(time.monotonic())

        thread = threading.Thread(target=tick)
        thread.start()
        try:
            trimtab.simulate(small(), {"name": "random", "drive_writes": 20})
        finally:
            over.set()
            thread.join()
        self.assertGreater(len(ticks), 3)

    def test_ctrl_c_stops_a_long_simulation(self):
        # Shells start background jobs with SIGINT ignored.
        listens = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        script = listens + "import trimtab\nprint('begun', flush=True)\ntrimtab.simulate(trimtab.Drive('intel-x25-m-160gb'), {'name': 'random', 'drive_writes': 1000})"
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "begun\n")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        self.assertIn("KeyboardInterrupt", said)


class Twins(unittest.TestCase):
    def test_twin_intervals_hold_truth_and_members_are_drives(self):
        if not BINARY:
            skip(self, "TRIMTAB does not name the program")
        drive = trimtab.Drive("crucial-m4-128gb").change({"capacity": "4GiB"})
        with tempfile.TemporaryDirectory() as directory:
            path, output = pathlib.Path(directory, "mine.toml"), f"{directory}/twin.toml"
            path.write_text(drive.text)
            command = [BINARY, "--quiet", "drive", "learn", f"drive:{path}", "--write-limit", "24MiB", "--output", output]
            subprocess.run(command, check=True, capture_output=True)
            twin = trimtab.Drive(output)
        known = {one["field"]: one for one in twin.twin["parameters"]}
        truth = int(re.search(r"^read_ns = ([\d_]+)", drive.text, re.M)[1])
        read = known["flash.nand.read_ns"]
        self.assertLessEqual(read["low"], truth)
        self.assertGreaterEqual(read["high"], truth)
        self.assertEqual(twin.twin["origin"]["budget"], "small")
        self.assertEqual(len(twin.members), 64)
        trimtab.simulate(twin.members[0].change({"capacity": "4GiB"}), {"name": "random", "drive_writes": 0.1})
        # Knowledge about a learned drive does not apply to a changed one.
        self.assertIsNone(twin.change({"flash.nand.read_ns": 1}).twin)
        self.assertIsNotNone(twin.change({}).twin)
        self.assertIsNone(small().twin)


class Sweeps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plan = trimtab.Plan(PLAN)
        cls.table = trimtab.sweep(cls.plan)

    def test_sweep_table_is_independent_of_threads_and_division(self):
        self.assertEqual((self.plan.cells, len(self.table)), (8, 8))
        rows = self.plan.run([5, 1, 7, 3], threads=2) + self.plan.run([0, 2, 4, 6])
        again = self.plan.table(rows)
        for name in self.table.column_names:
            self.assertEqual(self.table.column(name), again.column(name), name)

    def test_run_respects_memory_limit(self):
        code = """
            import sys, trimtab
            plan = trimtab.Plan("repeats = 4\\n[base]\\ndrive.name = 'sata-tlc-500gb'\\ndrive.capacity = '64GiB'\\n"
                                "workload = { name = 'random', until_written = '1MiB' }\\n[axes]\\nworkload.read_percent = [0]\\n")
            trimtab.sweep(plan, threads=4, memory_bytes=eval(sys.argv[1]))
            # Not getrusage, which includes the process before exec.
            peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
            print(plan.memory_bytes(0), int(peak.split()[1]) * 1024)
        """
        peaks = []
        for limit in ("1", "None"):
            printed = subprocess.run([sys.executable, "-c", textwrap.dedent(code), limit], check=True, capture_output=True, text=True).stdout
            cell, peak = map(int, printed.split())
            peaks.append(peak)
        self.assertLess(peaks[0], 2 * cell + (100 << 20), "one after another")
        self.assertGreater(peaks[1] - peaks[0], cell, "cells run concurrently if memory permits")

    def test_table_is_readable_by_arrow(self):
        import pyarrow

        table = pyarrow.table(self.table)
        self.assertEqual(table.column_names, self.table.column_names)
        for name in table.column_names:
            self.assertEqual(table.column(name).to_pylist(), self.table.column(name), name)
        self.assertEqual(table.schema.metadata[b"trimtab.model"].decode(), trimtab.MODEL)

    def test_table_has_columns_by_name_and_rows_in_order(self):
        table = self.table
        self.assertEqual(table["waf_ratio"], table.column("waf_ratio"))
        self.assertEqual(table.to_pydict(), {name: table.column(name) for name in table.column_names})
        rows = list(table)
        self.assertEqual(len(rows), len(table))
        self.assertEqual([row["cell"] for row in rows], table["cell"])
        with self.assertRaises(KeyError):
            table["nothing"]

    def test_table_is_readable_by_pandas_and_polars(self):
        import pandas
        import polars

        for frame in (pandas.DataFrame(self.table), polars.DataFrame(self.table)):
            self.assertEqual(list(frame.columns), self.table.column_names)
            self.assertEqual(frame["waf_ratio"].to_list(), self.table["waf_ratio"])
            self.assertEqual(frame["axis_workload_read_percent"].to_list(), self.table["axis_workload_read_percent"])

    def test_counters_are_integers(self):
        import pyarrow

        counters = [name for name in self.table.column_names if name.startswith("counter_")]
        self.assertGreater(len(counters), 5)
        for name in counters:
            self.assertTrue(all(type(value) is int for value in self.table[name]), name)
            self.assertEqual(pyarrow.table(self.table).schema.field(name).type, pyarrow.int64(), name)
        figures = trimtab.simulate(small(), {"name": "random", "drive_writes": 0.1}).figures
        self.assertIs(type(figures["counter_host_written_bytes"]), int)

    def test_progress_is_reported_and_can_stop_a_sweep(self):
        seen = []
        trimtab.sweep(self.plan, threads=1, progress=seen.append)
        self.assertEqual(seen, sorted(set(seen)))
        self.assertEqual(seen[-1], 8)

        def enough(_):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            trimtab.sweep(trimtab.Plan(PLAN.replace("repeats = 2", "repeats = 2000")), progress=enough)

    def test_sweep_figures_equal_command_line(self):
        import csv

        if not BINARY:
            skip(self, "TRIMTAB does not say where the program is")

        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "plan.toml")
            path.write_text(PLAN)
            subprocess.run([BINARY, "sweep", "run", path, "--output", f"{directory}/out", "--quiet"], check=True, capture_output=True)
            said = subprocess.run([BINARY, "sweep", "export", f"{directory}/out"], check=True, capture_output=True, text=True)
            rows = list(csv.DictReader(said.stdout.splitlines()))
            table = trimtab.sweep(path)
        self.assertEqual(list(rows[0]), table.column_names)
        for name in table.column_names:
            mine = table.column(name)
            theirs = [row[name] for row in rows]
            if any(isinstance(value, float) for value in mine):
                self.assertEqual(mine, [float(value) if value else None for value in theirs], name)
            else:
                self.assertEqual(["" if value is None else str(value) for value in mine], theirs, name)

    def test_manifest_has_one_command_per_shard(self):
        with tempfile.TemporaryDirectory(prefix="a plan ") as directory:
            plan = pathlib.Path(directory, "plan.toml")
            plan.write_text(PLAN)
            commands = trimtab.manifest(plan, 2, "out")
            self.assertEqual(commands[0], f"trimtab sweep run '{plan}' --shard 1/2 --output out.1")
            self.assertEqual(commands[-1], "trimtab sweep merge out.1 out.2 --output out")
            for shards in (0, 9, 10**9):
                with self.assertRaises(trimtab.Error) as raised:
                    trimtab.manifest(plan, shards, "out")
                self.assertIn("1 to 8 shards", str(raised.exception))


def travelling() -> tuple[trimtab.Plan, trimtab.Table]:
    """A plan whose drive and trace files are deleted, and its rows from before."""
    text = PLAN.replace("intel-x25-m-160gb", "./mine.toml").replace('drive.capacity = "2GiB"', "").replace("repeats = 2", "repeats = 4")
    text = text.replace('{ name = "random", drive_writes = 0.2 }', '{ name = "trace:t.txt", format = "columns", closed_loop = 4 }').replace("workload.read_percent = [0, 50]", 'policy.name = ["none", "online"]')
    with tempfile.TemporaryDirectory() as directory:
        pathlib.Path(directory, "mine.toml").write_text(small().text)
        pathlib.Path(directory, "t.txt").write_text("".join(f"{n / 1e5:.9f} 1 {n * 7919 % (1 << 17)} 4096 0\n" for n in range(20_000)))
        pathlib.Path(directory, "plan.toml").write_text(text)
        plan = trimtab.load_plan(f"{directory}/plan.toml")
        return trimtab.Plan(plan.text, files=plan.files), trimtab.sweep(plan)


class Packages(unittest.TestCase):
    def test_source_distribution_contains_all_sources(self):
        with tempfile.TemporaryDirectory() as directory:
            maturin = [str(pathlib.Path(sys.executable).with_name("maturin")), "sdist", "-m", str(ROOT / "crates/trimtab-python/Cargo.toml"), "-o", directory]
            subprocess.run(maturin, check=True, capture_output=True)
            [archive] = pathlib.Path(directory).glob("*.tar.gz")
            shutil.unpack_archive(archive, directory, filter="data")
            top = pathlib.Path(directory, archive.name.removesuffix(".tar.gz"))
            included = 0
            for source in top.glob("crates/*/src/**/*.rs"):
                for path in re.findall(r'include_(?:str|bytes)!\("([^"]+)"\)', source.read_text()):
                    file = (source.parent / path).resolve()
                    self.assertTrue(file.is_file() and file.is_relative_to(top.resolve()), f"{source.name}: {path}")
                    included += 1
            self.assertGreater(included, 50, "the drives")
            printed = (top / "PKG-INFO").read_text()
        for field in ["License-Expression: ", "License-File: LICENSE-MIT", "License-File: LICENSE-APACHE", "Description-Content-Type: text/markdown", "# Trimtab for Python"]:
            self.assertIn(field, printed)

    def test_stubs_match_the_module(self):
        # It leaves a cache in its working directory.
        with tempfile.TemporaryDirectory() as directory:
            printed = subprocess.run([sys.executable, "-m", "mypy.stubtest", "trimtab"], capture_output=True, text=True, cwd=directory)
        self.assertEqual(printed.returncode, 0, printed.stdout + printed.stderr)


class Engines(unittest.TestCase):
    """Runs on this machine only, without sending data elsewhere."""

    @classmethod
    def setUpClass(cls):
        os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled", RAY_TMPDIR=tempfile.mkdtemp())

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(os.environ.pop("RAY_TMPDIR"), ignore_errors=True)

    def test_dask_gives_same_table_after_worker_loss(self):
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            skip(self, "distributed is not installed")
        plan, here = travelling()
        with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1") as cluster, Client(cluster) as client:
            killed = []

            def progress(done):
                if not killed:
                    killed.append(client.run(os.getpid))
                    os.kill(next(iter(killed[0].values())), signal.SIGKILL)

            table = trimtab.sweep(plan, client=client, progress=progress)
            text = "import trimtab._sweep as s; s.MODEL = 'another'"
            client.run(exec, text)
            with self.assertRaises(trimtab.Error) as raised:
                trimtab.sweep(plan, client=client)
            self.assertIn("a worker has model another", str(raised.exception))
        self.assertTrue(killed)
        self.assertEqual(set(here.column("outcome")), {"finished"})
        for name in here.column_names:
            self.assertEqual(here.column(name), table.column(name), name)

    def test_dask_learns_many_drives_as_the_guide_says(self):
        """Oracle: the same command without Dask writes the same twin."""
        try:
            import pandas
            from distributed import LocalCluster
        except ImportError:
            skip(self, "distributed or pandas is not installed")
        if not BINARY:
            skip(self, "TRIMTAB does not name the program")
        guide = (ROOT / "docs/howto/logs.md").read_text()
        [_, code] = guide.split("On a cluster with Dask:\n\n")
        lines = itertools.takewhile(lambda line: line.startswith("    "), code.splitlines())
        code = "\n".join(line[4:] for line in lines)
        here, path = os.getcwd(), os.environ["PATH"]
        with tempfile.TemporaryDirectory() as directory:
            # Workers find the program and the logs as on a cluster with a shared directory.
            os.chdir(directory)
            os.environ["PATH"] = f"{pathlib.Path(BINARY).resolve().parent}:{path}"
            try:
                sheet = ["drive", "from-datasheet", "pm9a3", "--capacity", "1GiB", "--sequential-write", "500", "--draws", "0"]
                pathlib.Path("pm9a3.toml").write_bytes(subprocess.run([BINARY, *sheet], check=True, capture_output=True).stdout)
                pathlib.Path("logs").mkdir()
                for rate in (100, 120):
                    columns = {"time_s": range(1, 61), "host_write_bytes": [rate * 1_000_000] * 60}
                    pandas.DataFrame(columns).to_parquet(f"logs/{rate}.parquet")
                with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1") as cluster:
                    names = {"__name__": "__main__"}
                    exec(code.replace('"scheduler:8786"', repr(cluster.scheduler_address)), names)
                    names["Client"].current().close()
                documents = [json.loads(text) for text in names["twins"]]
                self.assertEqual([one["schema"] for one in documents], ["trimtab.twin-from-log"] * 2)
                learn = ["drive", "learn", "drive:./pm9a3.toml", "--from", "logs/120.parquet", "--pattern", "uniform", "--state", "overwritten"]
                subprocess.run([BINARY, *learn, "--output", "alone.toml"], check=True, capture_output=True)
                [alone, one, other] = [pathlib.Path(f"{name}.toml").read_text() for name in ("alone", "logs/120.parquet", "logs/100.parquet")]
                self.assertEqual(alone, one)
                self.assertNotEqual(one, other)
            finally:
                os.chdir(here)
                os.environ["PATH"] = path

    def test_ray_gives_same_table(self):
        try:
            import ray
        except ImportError:
            skip(self, "ray is not installed")
        plan, here = travelling()
        ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", _temp_dir=os.environ["RAY_TMPDIR"])
        try:
            table = trimtab.sweep(plan, client=ray)
        finally:
            ray.shutdown()
        for name in here.column_names:
            self.assertEqual(here.column(name), table.column(name), name)


if __name__ == "__main__":
    unittest.main()
