//! One setting of a volume by its name: what [`VolumeSpec::fields`] writes can be read again.

use super::VolumeSpec;
use alloc::format;
use alloc::string::{String, ToString as _};
use core::str::FromStr;
use trimtab_drive::units::{Bytes, Nanos};

impl VolumeSpec {
    /// What can be set, by the names that [`VolumeSpec::fields`] has without their `volume.`.
    pub const SETTINGS: [&'static str; 35] = [
        "start",
        "size",
        "bytes-per-inode",
        "journal-blocks",
        "mkfs-discard",
        "mkfs-lazy",
        "atime",
        "discard",
        "discard-max",
        "discard-ranges",
        "commit-interval",
        "transaction-blocks",
        "transaction-full-waits",
        "tags-per-descriptor",
        "converts-after-write",
        "memory",
        "dirty-background",
        "dirty-limit",
        "dirty-expire",
        "dirty-interval",
        "delayed-allocation",
        "write-on-close",
        "catalogue",
        "request-max",
        "queue-depth",
        "queue-max",
        "write-cache",
        "host-create",
        "host-open",
        "host-delete",
        "host-dir",
        "host-write-block",
        "host-read-block",
        "host-extent",
        "metadata-data",
    ];

    /// Changes one setting; whether the whole still makes sense is found out when a volume is made.
    ///
    /// # Errors
    /// What would be right, if `value` is nothing that `key` can be; an unknown key.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let (journal, writeback, layer, host) = (&mut self.journal, &mut self.writeback, &mut self.block_layer, &mut self.host);
        match key {
            "start" => self.start = read::<Bytes>(value)?,
            "size" if value == "rest of the drive" => self.size = None,
            "size" => self.size = Some(read(value)?),
            "bytes-per-inode" => self.bytes_per_inode = bytes(value)?,
            "journal-blocks" => self.journal_blocks = by_size(value)?,
            "mkfs-discard" => self.mkfs.discard = flag(value)?,
            "mkfs-lazy" => self.mkfs.lazy = flag(value)?,
            "atime" => self.atime = value.parse()?,
            "discard" => self.discard = value.parse()?,
            "discard-max" => self.discard_max = read(value)?,
            "discard-ranges" => self.discard_ranges = number(value)?,
            "commit-interval" => journal.commit_interval = read::<Nanos>(value)?,
            "transaction-blocks" => journal.transaction_blocks = by_size(value)?,
            "transaction-full-waits" => journal.full_waits = flag(value)?,
            "tags-per-descriptor" => journal.tags_per_descriptor = number(value)?,
            "converts-after-write" => journal.converts_after_write = flag(value)?,
            "memory" => writeback.memory = read(value)?,
            "dirty-background" => writeback.background_percent = percent(value)?,
            "dirty-limit" => writeback.limit_percent = percent(value)?,
            "dirty-expire" => writeback.expire = read(value)?,
            "dirty-interval" => writeback.interval = read(value)?,
            "delayed-allocation" => self.delayed_allocation = flag(value)?,
            "write-on-close" => self.write_on_close = flag(value)?,
            "catalogue" => self.catalogue = flag(value)?,
            "request-max" => layer.request_max = bytes(value)?,
            "queue-depth" => layer.queue_depth = number(value)?,
            "queue-max" => layer.queue_max = number(value)?,
            "write-cache" => layer.write_cache = flag(value)?,
            "host-create" => host.create = read(value)?,
            "host-open" => host.open = read(value)?,
            "host-delete" => host.delete = read(value)?,
            "host-dir" => host.dir = read(value)?,
            "host-write-block" => host.write_block = read(value)?,
            "host-read-block" => host.read_block = read(value)?,
            "host-extent" => host.extent = read(value)?,
            "metadata-data" => self.metadata_class = value.parse()?,
            _ => return Err(format!("a volume has no setting '{key}'")),
        }
        Ok(())
    }
}

fn read<T: FromStr<Err: core::fmt::Display>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|error: T::Err| error.to_string())
}

fn number(value: &str) -> Result<u32, String> {
    value.parse().ok().filter(|number| *number > 0).ok_or_else(|| format!("'{value}' is not a whole number above 0"))
}

fn bytes(value: &str) -> Result<u32, String> {
    let bytes: Bytes = read(value)?;
    u32::try_from(bytes.0).ok().filter(|bytes| *bytes > 0).ok_or_else(|| format!("{value} is not from 1 byte to 4 GiB"))
}

fn by_size(value: &str) -> Result<Option<u32>, String> {
    if value == "by size" { Ok(None) } else { number(value).map(Some) }
}

fn percent(value: &str) -> Result<u32, String> {
    let wrong = || format!("'{value}' is not a share such as 20%, from 1% to 100%");
    value.strip_suffix('%').unwrap_or(value).trim().parse().ok().filter(|percent| (1..=100).contains(percent)).ok_or_else(wrong)
}

fn flag(value: &str) -> Result<bool, String> {
    match value {
        "yes" | "true" => Ok(true),
        "no" | "false" => Ok(false),
        _ => Err(format!("'{value}' is neither yes nor no")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// What one volume says of itself makes any other the same, and every name of the list is one of these.
    #[test]
    fn what_is_written_is_read_again() {
        let all = [VolumeSpec::ext4(), VolumeSpec::ext4_2011(), VolumeSpec::desktop_2011(), VolumeSpec::ext4().with_online_discard()];
        for from in &all {
            for to in &all {
                let mut made = to.clone();
                let fields = from.fields();
                let keys: Vec<&str> =
                    fields.iter().filter_map(|field| field.key.strip_prefix("volume.")).filter(|k| *k != "name").collect();
                assert_eq!(keys, VolumeSpec::SETTINGS);
                for (key, field) in keys.iter().zip(fields.iter().filter(|field| field.key != "volume.name")) {
                    made.set(key, &field.value).unwrap_or_else(|why| panic!("{key} = {}: {why}", field.value));
                }
                made.name = from.name;
                assert_eq!(&made, from);
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (key, value) in
            [("atime", "sometimes"), ("dirty-limit", "0%"), ("memory", "much"), ("write-cache", "maybe"), ("queue-depth", "0")]
        {
            assert!(VolumeSpec::ext4().set(key, value).is_err(), "{key}");
        }
        assert!(VolumeSpec::ext4().set("atme", "noatime").unwrap_err().contains("no setting 'atme'"));
    }
}
