#!/usr/bin/env python3
"""Computes the wear of drives from smartctl's JSON, independently of trimtab, and compares.

    oracle.py DIRECTORY                      print what each *.json says, as one JSON line per file
    oracle.py DIRECTORY --compare TRIMTAB    run 'TRIMTAB wear --json --from FILE' and list differences

Shares no code with the program. Values that a document does not state are null. A counter
whose unit is not documented stays null too.
"""

import fractions
import json
import pathlib
import re
import subprocess
import sys

# name pattern -> (side, bytes per step; "sector" for the drive's logical sector)
UNIT = r"(?P<n>\d*)(?P<u>[KMGT]i?B)"
PATTERNS = [
    (re.compile(r"^(Host|Lifetime|Total)_Writes_" + UNIT + "$"), "host"),
    (re.compile(r"^Lifetime_Wts_Frm_Hst_" + UNIT + "$"), "host"),
    (re.compile(r"^(NAND|Flash|Total_NAND)_Writes_" + UNIT + "$"), "nand"),
    (re.compile(r"^Lifetime_Wts_To_Flsh_" + UNIT + "$"), "nand"),
    (re.compile(r"^(Lifetime_NAND_Prg|Total_NAND_Prog_Ct)_" + UNIT + "$"), "nand"),
    (re.compile(r"^NAND_" + UNIT + "_Written$"), "nand"),
    (re.compile(r"^[STMQ]LC_Writes_" + UNIT + "$"), "cell"),
    (re.compile(r"^[STMQ]LC_NAND_" + UNIT + "_Writes$"), "cell"),
    (re.compile(r"^NAND_" + UNIT + "_Written_[STMQ]LC$"), "cell"),
]
SECTOR_HOST = {"Total_LBAs_Written", "Total_Host_LBA_Written", "Sectors_Written_to_SSD", "Device_Sectors_Written", "Write_Sectors_Tot_Ct"}
SECTOR_NAND = {"Flash_LBAs_Written", "Flash_Writes_LBAs", "Flash_Writes_Sectors", "Nand_Sectors_Written", "NAND_Write_Sector_Cnt", "Sectors_Written_to_NAND"}
FACTOR = {"K": 1, "M": 2, "G": 3, "T": 4}


def step(match):
    base = 1024 if match["u"].endswith("iB") else 1000
    return int(match["n"] or 1) * base ** FACTOR[match["u"][0]]


def plain(row):
    """The raw value, where it is a single number."""
    raw = row.get("raw", {})
    value, printed = raw.get("value"), raw.get("string", str(raw.get("value")))
    return value if isinstance(value, int) and printed == str(value) and value != 2**48 - 1 else None


def statistic(document, name):
    for page in document.get("ata_device_statistics", {}).get("pages", []):
        for row in page.get("table", []):
            if row.get("name") == name and row.get("flags", {}).get("valid", True):
                return row.get("value")
    return None


def writes(document):
    """Host bytes, NAND bytes and write amplification of an ATA drive."""
    sector = document.get("logical_block_size")
    default_names = document.get("in_smartctl_database") is False
    explicit, sectors, nand, cells, pages = [], [], [], [], {}
    for row in document.get("ata_smart_attributes", {}).get("table", []):
        name, value = row["name"], plain(row)
        if value is None:
            continue
        if re.search("Program_Page_C", name):
            pages["host" if name.startswith("Host") else "own"] = value
        elif name in SECTOR_HOST and sector and not (default_names and name == "Total_LBAs_Written"):
            sectors.append(value * sector)
        elif name in SECTOR_NAND and sector:
            nand.append(value * sector)
        for pattern, side in PATTERNS:
            match = pattern.match(name)
            if match:
                {"host": explicit, "nand": nand, "cell": cells}[side].append(value * step(match))
    host_of_attributes = max(explicit or sectors or [None], key=lambda v: v if v is not None else -1)
    nand_bytes = max(nand) if nand else sum(cells) if cells else None
    standard = statistic(document, "Logical Sectors Written")
    host = standard * sector if standard is not None and sector else host_of_attributes
    waf = None
    if pages.get("host") and "own" in pages:
        waf = fractions.Fraction(pages["host"] + pages["own"], pages["host"])
    elif host_of_attributes and nand_bytes and abs(host - host_of_attributes) <= 0.02 * host:
        waf = fractions.Fraction(nand_bytes, host_of_attributes)
    return host, nand_bytes, waf


def used(document):
    """Rated life used, and whether the scale is a standard's."""
    standard = statistic(document, "Percentage Used Endurance Indicator")
    if standard is not None:
        return standard, True
    rows = {row["name"]: row for row in document.get("ata_smart_attributes", {}).get("table", [])}
    for name, row in rows.items():
        if re.search("Li[fv]e", name) and re.search("Remain|Left", name):
            value, raw = row["value"], plain(row)
            if raw is not None and value + raw == 100:
                return raw, False
            # A constant 1 is no percentage, except where the name says so.
            if raw is not None and value == 100 and (1 < raw <= 100 or raw == 1 and "erc" in name):
                return 100 - raw, False
            return 100 - value, False
        if re.search("Life", name) and "Used" in name:
            return plain(row), False
    if document.get("in_smartctl_database") is not False:
        for row in document.get("ata_smart_attributes", {}).get("table", []):
            if (row["id"], row["name"]) == (233, "Media_Wearout_Indicator"):
                return 100 - row["value"], False
        for row in document.get("ata_smart_attributes", {}).get("table", []):
            if row["name"] == "Wear_Leveling_Count" and row["value"] <= 100:
                return 100 - row["value"], False
    return None, None


def shutdowns(document):
    found = [
        plain(row)
        for row in document.get("ata_smart_attributes", {}).get("table", [])
        if re.match(r"Unsafe_Shutdown|Unexp\w*_(Power_?Loss|P[ow]*r_?Loss)", row["name"])
    ]
    return max([value for value in found if value is not None], default=None)


def expected(document):
    health = document.get("nvme_smart_health_information_log")
    answer = {"temperature_celsius": document.get("temperature", {}).get("current")}
    answer["power_on_hours"] = document.get("power_on_time", {}).get("hours")
    rotation = document.get("rotation_rate")
    names = " ".join(row["name"] for row in document.get("ata_smart_attributes", {}).get("table", []))
    if health:
        host, (nand, waf) = health["data_units_written"] * 512_000, (None, None)
        answer.update(used_percent=health["percentage_used"], used_is_standard=True, unsafe_shutdowns=health["unsafe_shutdowns"])
        answer["kind"] = "ssd"
    elif "scsi_error_counter_log" in document:
        gigabytes = document["scsi_error_counter_log"]["write"]["gigabytes_processed"]
        host, nand, waf = int(fractions.Fraction(gigabytes) * 10**9), None, None
        percent = document.get("scsi_percentage_used_endurance_indicator")
        answer.update(used_percent=percent, used_is_standard=None if percent is None else True, unsafe_shutdowns=None)
        answer["kind"] = "ssd" if rotation == 0 else "hard-disk"
    else:
        host, nand, waf = writes(document)
        percent, standard = used(document)
        answer.update(used_percent=percent, used_is_standard=standard, unsafe_shutdowns=shutdowns(document))
        disk = rotation if rotation is not None else "Seek_Error_Rate" in names
        answer["kind"] = "hard-disk" if disk else "ssd"
    answer.update(host_written_bytes=host, nand_written_bytes=nand, waf=None if waf is None else float(waf))
    return answer


def actual(program, path):
    command = [program, "wear", "--json", "--from", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None, done.stderr.strip()
    drive = json.loads(done.stdout)["drives"][0]
    drive["waf"] = drive["waf_lifetime"] and drive["waf_lifetime"]["value"]
    return drive, ""


def same(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-9 * abs(one)
    return one == other


def main():
    directory, rest = pathlib.Path(sys.argv[1]), sys.argv[2:]
    files = sorted(directory.glob("*.json"))
    differences = 0
    for path in files:
        answer = expected(json.loads(path.read_text()))
        if not rest:
            print(json.dumps({"file": path.name, **answer}))
            continue
        drive, failure = actual(rest[1], path)
        if drive is None:
            differences += 1
            print(f"{path.name}: {failure}")
            continue
        for key, value in answer.items():
            if not same(value, drive[key]):
                differences += 1
                print(f"{path.name}: {key}: expected {value}, found {drive[key]}")
    if rest:
        print(f"{len(files)} files, {differences} differences")
    return 1 if differences or not files else 0


if __name__ == "__main__":
    sys.exit(main())
