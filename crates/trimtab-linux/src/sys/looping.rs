//! The loop driver's ioctl interface, `linux/loop.h`.

use super::beneath::ObjectIdentity;
use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd as _;
use std::path::Path;

const LOOP_CLR_FD: libc::c_ulong = 0x4C01;
const LOOP_SET_STATUS64: libc::c_ulong = 0x4C04;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_CTL_ADD: libc::c_ulong = 0x4C80;
const LOOP_CTL_REMOVE: libc::c_ulong = 0x4C81;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_PARTSCAN: u32 = 8;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [[u8; 32]; 2],
    crypt_name: [[u8; 32]; 2],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<Info>() == 232 && size_of::<LoopConfig>() == 304);

/// The backing file of a loop device, as the kernel reports it: independent of the mount
/// namespace and of the file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backing {
    /// The backing file.
    pub file: ObjectIdentity,
    /// The device number, if the backing file is a device.
    pub rdevice: u64,
}

/// Returns the backing file of the open loop device; `None` if the device is free.
pub fn backing(device: &File) -> io::Result<Option<Backing>> {
    match status(device) {
        Ok(info) => Ok(Some(Backing {
            file: ObjectIdentity { device: info.device, inode: info.inode },
            rdevice: info.rdevice,
        })),
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Attaches `file` to a free loop device, with direct I/O and partition scanning. The
/// kernel reports the backing file as `name`.
pub fn configure(device: &File, file: &File, name: &Path, logical_block: u32) -> io::Result<()> {
    let name = name.as_os_str().as_encoded_bytes();
    let mut info = Info { flags: LO_FLAGS_PARTSCAN | LO_FLAGS_DIRECT_IO, ..Info::default() };
    let kept = name.len().min(63);
    info.file_name.as_flattened_mut()[..kept].copy_from_slice(&name[..kept]);
    let config = LoopConfig {
        fd: file.as_raw_fd() as u32,
        block_size: logical_block,
        info,
        reserved: [0; 8],
    };
    ioctl(device, LOOP_CONFIGURE, std::ptr::from_ref(&config) as libc::c_ulong).map(|_| ())
}

/// Detaches the device. If other processes have it open, it detaches on last close.
pub fn clear(device: &File) -> io::Result<()> {
    ioctl(device, LOOP_CLR_FD, 0).map(|_| ())
}

/// Cancels a pending detach of [`clear`] for a device that other processes still have
/// open.
pub fn keep(device: &File) -> io::Result<()> {
    let mut info = status(device)?;
    info.flags &= !LO_FLAGS_AUTOCLEAR;
    ioctl(device, LOOP_SET_STATUS64, std::ptr::from_ref(&info) as libc::c_ulong).map(|_| ())
}

/// Creates the loop device with this number.
pub fn add(control: &File, number: u32) -> io::Result<()> {
    ioctl(control, LOOP_CTL_ADD, number.into()).map(|_| ())
}

/// Deletes the free loop device with this number.
pub fn remove(control: &File, number: u32) -> io::Result<()> {
    ioctl(control, LOOP_CTL_REMOVE, number.into()).map(|_| ())
}

/// Returns the number of a free loop device. Creates one if there is none.
pub fn free(control: &File) -> io::Result<u32> {
    ioctl(control, LOOP_CTL_GET_FREE, 0).map(|number| number as u32)
}

fn status(device: &File) -> io::Result<Info> {
    let mut info = Info::default();
    ioctl(device, LOOP_GET_STATUS64, std::ptr::from_mut(&mut info) as libc::c_ulong).map(|_| info)
}

fn ioctl(file: &File, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<i32> {
    // SAFETY: each request used here takes a number, or a pointer to an `Info` or
    // `Config` that outlives the call.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request as _, argument) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
