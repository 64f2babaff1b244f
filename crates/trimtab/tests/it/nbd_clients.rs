//! The NBD server with third-party clients: libnbd's tools and QEMU's.

use crate::attached_drive::{Attached, ok};
use crate::support::{have_tool, skip};
use predicates::prelude::*;
use std::path::Path;
use std::process::Command;
use trimtab_drive::data::DataClass;
use trimtab_drive::rng::Stream;

const SIZE: usize = 256 << 20;

fn attached(scratch: &Path, more: &[&str]) -> (Attached, String) {
    let socket = scratch.join("nbd");
    let mut args = vec![
        "ocz-vertex-le-100gb",
        "--size",
        "256MiB",
        "--speed",
        "off",
        "--no-block",
        "--nbd",
        socket.to_str().unwrap(),
    ];
    args.extend(more);
    (Attached::new(&args), format!("nbd+unix:///?socket={}", socket.display()))
}

#[test]
fn nbdinfo_and_nbdcopy_work_with_the_drive() {
    if !["nbdinfo", "nbdcopy"].into_iter().all(have_tool) {
        return skip("libnbd-bin");
    }
    let scratch = tempfile::tempdir().unwrap();
    let (drive, uri) = attached(scratch.path(), &[]);
    let shown = ok(Command::new("nbdinfo").args(["--json", &uri])).stdout;
    let shown: serde_json::Value = serde_json::from_slice(&shown).unwrap();
    let export = &shown["exports"][0];
    assert_eq!(export["export-size"], SIZE);
    for (name, expected) in [
        ("can_flush", true),
        ("can_fua", true),
        ("can_trim", true),
        ("can_zero", true),
        ("can_multi_conn", true),
        ("is_read_only", false),
    ] {
        assert_eq!(export[name], expected, "{name}");
    }
    assert_eq!(
        (&export["block_size_minimum"], &export["is_rotational"]),
        (&512.into(), &false.into())
    );

    let (image, back) = (scratch.path().join("image"), scratch.path().join("back"));
    let mut content = vec![0; SIZE];
    // Alternate with zeros, which nbdcopy sends as zero requests.
    for part in content.chunks_mut(4 << 20).step_by(2) {
        DataClass::Random.fill(&mut Stream::new(1, "image"), part);
    }
    std::fs::write(&image, &content).unwrap();
    // nbdcopy opens several connections because the server allows that.
    ok(Command::new("nbdcopy").args(["--flush", "--connections=4"]).arg(&image).arg(&uri));
    ok(Command::new("nbdcopy").arg(&uri).arg(&back));
    assert!(std::fs::read(&back).unwrap() == content, "what was copied in comes out again");
    let requests = drive.status()["requests"].clone();
    assert!(requests["flush"]["count"].as_u64() >= Some(1), "{requests}");
    let refused = Command::new("nbdinfo").arg(uri.replace("///", "///other")).output().unwrap();
    assert!(
        !refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("other"),
        "there is one export only"
    );
    drive.detach();
    assert!(!scratch.path().join("nbd").exists(), "the socket is gone with the drive");
}

#[test]
fn qemu_reads_writes_discards_and_converts() {
    if !["qemu-io", "qemu-img"].into_iter().all(have_tool) {
        return skip("qemu-utils");
    }
    let scratch = tempfile::tempdir().unwrap();
    let (drive, uri) = attached(scratch.path(), &[]);
    let qemu_io = |commands: &[&str]| {
        let mut command = Command::new("qemu-io");
        // `discard` commands reach the device only if it was opened with this option.
        command.args(["-f", "raw", "-d", "unmap"]);
        for text in commands {
            command.args(["-c", text]);
        }
        let output = ok(command.arg(&uri));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!said.contains("fail") && !said.contains("error"), "{said}");
    };
    qemu_io(&[
        "write -P 0x5a 0 8M",
        "read -P 0x5a 0 8M",
        "discard 1M 2M",
        "read -P 0 1M 2M",
        "read -P 0x5a 3M 1M",
        "flush",
    ]);
    let status = drive.status();
    assert_eq!(
        (&status["discards"]["effective_bytes"], &status["mapped_bytes"]),
        (&(2 << 20).into(), &(6 << 20).into())
    );
    // `write -z` writes zeros that stay allocated; with `-u` it becomes a trim.
    qemu_io(&["write -z 4M 1M", "read -P 0 4M 1M"]);
    assert_eq!(drive.status()["mapped_bytes"], 6 << 20);
    qemu_io(&[
        "write -z -u 5M 1M",
        "read -P 0 5M 1M",
        "write -f -P 7 512 512",
        "read -P 7 512 512",
        "read -P 0x5a 0 512",
    ]);
    assert_eq!(drive.status()["mapped_bytes"], 5 << 20);
    qemu_io(&[
        "aio_write -P 9 8M 4M",
        "aio_write -P 8 12M 4M",
        "aio_flush",
        "read -P 9 8M 4M",
        "read -P 8 12M 4M",
    ]);
    let converted = scratch.path().join("x.qcow2");
    ok(Command::new("qemu-img")
        .args(["convert", "-f", "raw", "-O", "qcow2", &uri])
        .arg(&converted));
    ok(Command::new("qemu-img")
        .args(["compare", "-f", "raw", "-F", "qcow2", &uri])
        .arg(&converted));
}

#[test]
fn nbd_server_returns_read_error_and_survives_disconnect() {
    if !have_tool("qemu-io") {
        return skip("qemu-utils");
    }
    let scratch = tempfile::tempdir().unwrap();
    let (drive, uri) = attached(scratch.path(), &["--fault", "read-error:range=1MiB+1MiB"]);
    let read = |at: &str| {
        Command::new("qemu-io")
            .args(["-f", "raw", "-c", &format!("read {at} 4k"), &uri])
            .output()
            .unwrap()
    };
    let failed = read("1M");
    assert!(String::from_utf8_lossy(&failed.stdout).contains("Input/output error"), "{failed:?}");
    assert!(read("2M").status.success());
    // A client disconnects in the middle of a request.
    use std::io::Write as _;
    let mut rude = std::os::unix::net::UnixStream::connect(scratch.path().join("nbd")).unwrap();
    rude.write_all(b"\0\0\0\x01IHAVEOPT\0\0").unwrap();
    drop(rude);
    assert!(read("3M").status.success());
    drive
        .command()
        .args(["drive", "detach"])
        .assert()
        .success()
        .stdout(predicate::str::is_empty().or(predicate::str::contains("detached")));
}
