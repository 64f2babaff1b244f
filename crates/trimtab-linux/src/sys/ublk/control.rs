//! Control of ublk devices: create, configure, start, stop and delete.

use super::{Info, Parameters, character_node, encoded};
use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use rustix::thread::CpuSet;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;

const NODE: &str = "/dev/ublk-control";
/// `struct ublksrv_ctrl_cmd`
const COMMAND_BYTES: usize = 32;
/// Larger than any answer.
const CPU_MASK_BYTES: usize = 128;

/// Command numbers; true if the driver both reads and writes the data.
const GET_QUEUE_AFFINITY: (u32, bool) = (0x01, false);
const ADD: (u32, bool) = (0x04, true);
const DELETE: (u32, bool) = (0x05, true);
const START: (u32, bool) = (0x06, true);
const STOP: (u32, bool) = (0x07, true);
const SET_PARAMETERS: (u32, bool) = (0x08, true);
const GET_INFO_BY_PATH: (u32, bool) = (0x12, false);
const GET_FEATURES: (u32, bool) = (0x13, false);
const DELETE_LATER: (u32, bool) = (0x14, false);

/// The driver's control device. Every command blocks until it completes.
pub struct Control {
    ring: IoUring<squeue::Entry128>,
    device: File,
}

/// Arguments of a command, in addition to the device number.
#[derive(Default)]
struct Argument<'a> {
    queue: Option<u16>,
    inline: u64,
    /// The data start with the path of the character device. Unprivileged devices need
    /// this, and so do some commands.
    with_path: bool,
    data: &'a [u8],
    /// Size of the answer in bytes.
    answer: usize,
}

impl Control {
    /// Opens the control device.
    ///
    /// # Errors
    /// `ENOENT` if the driver is not loaded; the kernel's error if access is denied or
    /// io_uring is not available.
    pub fn open() -> io::Result<Self> {
        let device = File::options().read(true).write(true).open(NODE)?;
        Ok(Self { ring: IoUring::builder().build(4)?, device })
    }

    /// Returns the driver's features as device flags; `None` if the driver is too old to
    /// report them (before Linux 6.5).
    ///
    /// # Errors
    /// Any other error from the kernel.
    pub fn features(&mut self) -> io::Result<Option<u64>> {
        match self.ask(u32::MAX, GET_FEATURES, &Argument { answer: 8, ..Argument::default() }) {
            Ok(answer) => Ok(answer.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))),
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENODEV)
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Creates a device. Returns the parameters that the kernel accepted in place of
    /// `wanted`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn add(&mut self, wanted: &Info) -> io::Result<Info> {
        let data = bytes_of(wanted);
        let answer = self.ask(
            wanted.number,
            ADD,
            &Argument { data: &data, answer: data.len(), ..Argument::default() },
        )?;
        info_of(&answer)
    }

    /// Returns the parameters of the device with this number.
    ///
    /// # Errors
    /// `ENODEV` if there is no such device, `EPERM` or `EACCES` if it belongs to another
    /// user.
    pub fn info(&mut self, number: u32) -> io::Result<Info> {
        let answer = self.ask(
            number,
            GET_INFO_BY_PATH,
            &Argument { with_path: true, answer: size_of::<Info>(), ..Argument::default() },
        )?;
        info_of(&answer)
    }

    /// Sets the parameters of the device, before it starts.
    ///
    /// # Errors
    /// The kernel rejects the parameters.
    pub fn set_parameters(&mut self, device: &Info, parameters: &Parameters) -> io::Result<()> {
        let data = bytes_of(parameters);
        self.command(device, SET_PARAMETERS, &Argument { data: &data, ..Argument::default() })
            .map(drop)
    }

    /// Returns the processors that issue requests to a queue.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn processors(&mut self, device: &Info, queue: u16) -> io::Result<CpuSet> {
        let argument = Argument {
            queue: Some(queue),
            inline: queue.into(),
            answer: CPU_MASK_BYTES,
            ..Argument::default()
        };
        let mask = self.command(device, GET_QUEUE_AFFINITY, &argument)?;
        let mut set = CpuSet::new();
        let processors = (0..mask.len() * 8).filter(|cpu| mask[cpu / 8] >> (cpu % 8) & 1 == 1);
        processors.filter(|cpu| *cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
        Ok(set)
    }

    /// Creates the block device. All queues must already wait for requests in other
    /// threads of this process, because the kernel reads from the device immediately.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn start(&mut self, device: &Info) -> io::Result<()> {
        let inline = u64::from(std::process::id());
        self.command(device, START, &Argument { inline, ..Argument::default() }).map(drop)
    }

    /// Removes the block device, even while it is in use.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn stop(&mut self, device: &Info) -> io::Result<()> {
        self.command(device, STOP, &Argument::default()).map(drop)
    }

    /// Deletes the device once its character device is closed. Kernels before Linux 6.9
    /// support only a blocking delete, which is used if `may_wait`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn delete(&mut self, device: &Info, may_wait: bool) -> io::Result<()> {
        match self.command(device, DELETE_LATER, &Argument::default()) {
            Err(error)
                if may_wait
                    && matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL)) =>
            {
                self.command(device, DELETE, &Argument::default()).map(drop)
            }
            result => result.map(drop),
        }
    }

    fn command(
        &mut self,
        device: &Info,
        command: (u32, bool),
        argument: &Argument<'_>,
    ) -> io::Result<Vec<u8>> {
        let argument = Argument { with_path: device.flags & super::UNPRIVILEGED != 0, ..*argument };
        self.ask(device.number, command, &argument)
    }

    fn ask(
        &mut self,
        number: u32,
        (command, both_ways): (u32, bool),
        argument: &Argument<'_>,
    ) -> io::Result<Vec<u8>> {
        let mut path = Vec::new();
        if argument.with_path {
            path.extend(character_node(number).as_os_str().as_bytes());
            path.push(0);
            // The kernel reads the following data as a structure, which must be aligned.
            path.resize(path.len().next_multiple_of(8), 0);
        }
        let mut data = path.clone();
        data.extend(argument.data);
        data.resize(data.len().max(path.len() + argument.answer), 0);
        let header = header(number, argument, path.len(), data.as_mut_ptr() as u64, data.len());
        let number = encoded(true, both_ways, command, COMMAND_BYTES);
        let entry =
            opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), number).cmd(header).build();
        match self.carry_out(&entry) {
            Ok(0..) => Ok(data.split_off(path.len())),
            Ok(errno) => Err(io::Error::from_raw_os_error(-errno)),
            Err(error) => {
                // The kernel may still write to this memory, so it leaks on purpose.
                std::mem::forget(data);
                Err(error)
            }
        }
    }

    /// Submits the command and waits for its result. After an error the kernel may still
    /// hold the command.
    fn carry_out(&mut self, entry: &squeue::Entry128) -> io::Result<i32> {
        // SAFETY: the caller keeps the memory behind the entry until the command
        // completes, and leaks it if completion is unknown.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.map_err(|_| io::Error::other("the ring is full"))?;
        loop {
            match self.ring.submit_and_wait(1) {
                // Signals are handled elsewhere.
                Err(error) if !matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) => {
                    return Err(error);
                }
                _ => {}
            }
            if let Some(completion) = self.ring.completion().next() {
                return Ok(completion.result());
            }
        }
    }
}

/// `struct ublksrv_ctrl_cmd`, padded with zeros.
fn header(number: u32, argument: &Argument<'_>, path: usize, address: u64, len: usize) -> [u8; 80] {
    let mut bytes = [0; 80];
    bytes[..4].copy_from_slice(&number.to_ne_bytes());
    bytes[4..6].copy_from_slice(&argument.queue.unwrap_or(u16::MAX).to_ne_bytes());
    if len > 0 {
        bytes[6..8].copy_from_slice(&(len as u16).to_ne_bytes());
        bytes[8..16].copy_from_slice(&address.to_ne_bytes());
    }
    bytes[16..24].copy_from_slice(&argument.inline.to_ne_bytes());
    bytes[24..26].copy_from_slice(&(path as u16).to_ne_bytes());
    bytes
}

/// A kernel structure of plain numbers without padding.
trait PlainData: Copy {}
impl PlainData for Info {}
impl PlainData for Parameters {}

fn bytes_of<T: PlainData>(value: &T) -> Vec<u8> {
    // SAFETY: types that implement `Plain` have no padding, so all bytes are initialised.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
        .to_vec()
}

fn info_of(bytes: &[u8]) -> io::Result<Info> {
    let bytes: &[u8; size_of::<Info>()] =
        bytes.first_chunk().ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    // SAFETY: the bytes have the size of the structure, whose numbers accept any value.
    Ok(unsafe { std::ptr::from_ref(bytes).cast::<Info>().read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_command_has_device_queue_data_and_path() {
        let argument =
            Argument { queue: Some(3), inline: 0x0102_0304_0506_0708, ..Argument::default() };
        let bytes = header(7, &argument, 16, 0x1000, 80);
        assert_eq!(bytes[..8], [7, 0, 0, 0, 3, 0, 80, 0]);
        assert_eq!(bytes[8..16], 0x1000_u64.to_ne_bytes());
        assert_eq!(bytes[16..24], 0x0102_0304_0506_0708_u64.to_ne_bytes());
        assert_eq!(
            (bytes[24..26].to_vec(), bytes[26..].iter().all(|byte| *byte == 0)),
            (vec![16, 0], true)
        );
        let bytes = header(7, &Argument::default(), 0, 0x1000, 0);
        assert_eq!(
            (bytes[4..6].to_vec(), bytes[6..16].iter().all(|byte| *byte == 0)),
            (vec![0xFF, 0xFF], true)
        );
    }

    #[test]
    fn ublk_info_round_trips_through_bytes() {
        let info = Info {
            queues: 2,
            depth: 128,
            number: u32::MAX,
            flags: 1 << 40,
            mark: 77,
            ..Info::default()
        };
        let bytes = bytes_of(&info);
        assert_eq!(
            (bytes.len(), bytes[0], &bytes[32..40]),
            (64, 2, 77_u64.to_ne_bytes().as_slice())
        );
        assert_eq!(info_of(&bytes).unwrap(), info);
        assert!(info_of(&bytes[..63]).is_err());
    }
}
