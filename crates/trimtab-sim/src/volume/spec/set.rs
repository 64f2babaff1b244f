//! Settings of a volume: everything that [`VolumeSpec::fields`] writes can be parsed
//! again.

use super::VolumeSpec;
use crate::run::Field;
use crate::setting::{ABOVE_0, GivenSettings, NamedSetting, Setting, SettingError};
use alloc::format;
use alloc::vec::Vec;

impl VolumeSpec {
    fn settings(&mut self) -> [NamedSetting<'_>; 35] {
        let (journal, writeback, layer, host) =
            (&mut self.journal, &mut self.writeback, &mut self.block_layer, &mut self.host);
        [
            ("start", Setting::size(&mut self.start)),
            ("size", Setting::Rest(&mut self.size)),
            ("bytes-per-inode", Setting::SmallSize(&mut self.bytes_per_inode)),
            ("journal-blocks", Setting::BySize(&mut self.journal_blocks)),
            ("mkfs-discard", Setting::Flag(&mut self.mkfs.discard)),
            ("mkfs-lazy", Setting::Flag(&mut self.mkfs.lazy)),
            ("atime", Setting::Text(&mut self.atime)),
            ("discard", Setting::Text(&mut self.discard)),
            ("discard-max", Setting::size(&mut self.discard_max)),
            ("discard-ranges", Setting::Number(&mut self.discard_ranges, ABOVE_0)),
            ("commit-interval", Setting::time(&mut journal.commit_interval)),
            ("transaction-blocks", Setting::BySize(&mut journal.transaction_blocks)),
            ("transaction-full-waits", Setting::Flag(&mut journal.full_waits)),
            ("tags-per-descriptor", Setting::Number(&mut journal.tags_per_descriptor, ABOVE_0)),
            ("converts-after-write", Setting::Flag(&mut journal.converts_after_write)),
            ("memory", Setting::size(&mut writeback.memory)),
            ("dirty-background", Setting::Percent(&mut writeback.background_percent)),
            ("dirty-limit", Setting::Percent(&mut writeback.limit_percent)),
            ("dirty-expire", Setting::time(&mut writeback.expire)),
            ("dirty-interval", Setting::time(&mut writeback.interval)),
            ("delayed-allocation", Setting::Flag(&mut self.delayed_allocation)),
            ("write-on-close", Setting::Flag(&mut self.write_on_close)),
            ("catalogue", Setting::Flag(&mut self.catalogue)),
            ("request-max", Setting::SmallSize(&mut layer.request_max)),
            ("queue-depth", Setting::Number(&mut layer.queue_depth, ABOVE_0)),
            ("queue-max", Setting::Number(&mut layer.queue_max, ABOVE_0)),
            ("write-cache", Setting::Flag(&mut layer.write_cache)),
            ("host-create", Setting::time(&mut host.create)),
            ("host-open", Setting::time(&mut host.open)),
            ("host-delete", Setting::time(&mut host.delete)),
            ("host-dir", Setting::time(&mut host.dir)),
            ("host-write-block", Setting::time(&mut host.write_block)),
            ("host-read-block", Setting::time(&mut host.read_block)),
            ("host-extent", Setting::time(&mut host.extent)),
            ("metadata-data", Setting::Text(&mut self.metadata_class)),
        ]
    }

    /// All settings of the volume, for reports and the store.
    #[must_use]
    pub fn fields(&self) -> Vec<Field> {
        let mut spec = self.clone();
        let settings = spec
            .settings()
            .map(|(name, setting)| Field::new(format!("volume.{name}"), setting.text()));
        core::iter::once(Field::new("volume.name", self.name)).chain(settings).collect()
    }

    /// Changes settings. Consistency is checked when a volume is created.
    ///
    /// # Errors
    /// Unknown key, or an invalid value with a description of valid ones.
    pub fn set(&mut self, mut given: GivenSettings<'_>) -> Result<(), SettingError> {
        given.apply(self.settings())?;
        given.end("a volume")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields of one volume turn any other into it, and every setting has a field.
    #[test]
    fn fields_and_set_round_trip() {
        let all = [
            VolumeSpec::ext4(),
            VolumeSpec::ext4_2011(),
            VolumeSpec::desktop_2011(),
            VolumeSpec::ext4().with_online_discard(),
        ];
        for from in &all {
            for to in &all {
                let mut made = to.clone();
                let fields = from.fields();
                let pairs = fields.iter().filter_map(|field| {
                    Some((field.key.strip_prefix("volume.")?, field.value.clone()))
                });
                made.set(GivenSettings::new("", pairs.filter(|(key, _)| *key != "name"))).unwrap();
                made.name = from.name;
                assert_eq!(&made, from);
            }
        }
    }

    #[test]
    fn set_rejects_invalid_values() {
        for (key, value) in [
            ("atime", "sometimes"),
            ("dirty-limit", "0%"),
            ("memory", "much"),
            ("write-cache", "maybe"),
            ("queue-depth", "0"),
        ] {
            let error = VolumeSpec::ext4()
                .set(GivenSettings::new("volume.", [(key, value.into())]))
                .unwrap_err();
            assert_eq!(error.key.unwrap(), format!("volume.{key}"));
        }
        let error = VolumeSpec::ext4()
            .set(GivenSettings::new("volume.", [("atme", "noatime".into())]))
            .unwrap_err();
        assert_eq!(error.text, "a volume has no setting 'atme'; did you mean 'atime'?");
    }
}
