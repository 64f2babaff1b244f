"""Write saturation of SNIA PTS 2.0.2 with fio: pts_fio.py DEVICE BYTES_OF_A_ROUND.

One job without pauses writes the device four times at random; its log of requests is cut into rounds.
Prints verdict, number of rounds and mean IOPS of the last capacity: five means of six rounds.
"""

import glob
import os
import subprocess
import sys
import tempfile

device, requests = sys.argv[1], int(sys.argv[2]) // 4096
with open(device, "rb") as opened:
    capacity = opened.seek(0, os.SEEK_END)
with tempfile.TemporaryDirectory() as scratch:
    settings = "name=wsat rw=randwrite bs=4k iodepth=32 ioengine=libaio direct=1 norandommap=1 randrepeat=0"
    settings += f" filename={device} io_size={4 * capacity} write_lat_log={scratch}/log log_offset=0"
    command = ["fio", *(f"--{setting}" for setting in settings.split())]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (log,) = glob.glob(f"{scratch}/log_lat.*.log")
    with open(log) as lines:
        ended = sorted(int(line.split(",")[0]) for line in lines)
assert len(ended) == 4 * capacity // 4096, len(ended)
ends = [0, *ended[requests - 1 :: requests]]
rates = [1000 * requests / (end - start) for start, end in zip(ends, ends[1:])]
last = [sum(rates[at : at + 6]) / 6 for at in range(98, 128, 6)]
mean = sum(last) / 5
slope = sum((x - 2) * rate for x, rate in enumerate(last)) / 10
steady = max(last) - min(last) <= 0.2 * mean and abs(4 * slope) <= 0.1 * mean
print("steady" if steady else "not steady", len(rates), mean)
