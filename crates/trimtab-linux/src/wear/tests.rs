use super::*;
use proptest::prelude::*;
use serde_json::json;

fn read(document: &Value) -> Reading {
    parse(document.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error}: {document}"))
}

/// A document of a SATA SSD with these attributes: number, name, normalised and raw
/// value.
fn ssd(attributes: &[(u64, &str, u64, u64)]) -> Value {
    let row = |(id, name, value, raw): &(u64, &str, u64, u64)| json!({ "id": id, "name": name, "value": value, "raw": { "value": raw, "string": raw.to_string() } });
    json!({
        "device": { "protocol": "ATA" }, "rotation_rate": 0, "logical_block_size": 512, "in_smartctl_database": true,
        "ata_smart_attributes": { "table": attributes.iter().map(row).collect::<Vec<_>>() },
        "smartctl": { "exit_status": 0 },
    })
}

fn statistics(mut document: Value, sectors: u64, percent: u64) -> Value {
    let entry = |name: &str, value: u64| json!({ "name": name, "value": value, "flags": { "valid": true } });
    document["ata_device_statistics"] = json!({ "pages": [
        { "number": 1, "table": [entry("Logical Sectors Written", sectors)] },
        { "number": 7, "table": [entry("Percentage Used Endurance Indicator", percent)] },
    ] });
    document
}

fn host(reading: &Reading) -> Option<u64> {
    reading.host_written.as_ref().map(|counter| counter.bytes)
}

fn nand(reading: &Reading) -> Option<u64> {
    reading.nand_written.as_ref().map(|counter| counter.bytes)
}

fn waf(reading: &Reading) -> Option<f64> {
    reading.waf_counters.as_ref()?.lifetime().map(|waf| waf.value)
}

#[test]
fn nvme_units_are_512000_bytes_and_used_may_exceed_100() {
    let document = json!({ "device": { "protocol": "NVMe" }, "nvme_smart_health_information_log": {
        "data_units_written": 3, "percentage_used": 130, "temperature": 41, "unsafe_shutdowns": 5, "power_on_hours": 7, "available_spare": 99 } });
    let reading = read(&document);
    assert_eq!((host(&reading), nand(&reading), waf(&reading)), (Some(1_536_000), None, None));
    assert_eq!(
        reading.used.as_ref().map(|used| (used.percent, used.is_standard)),
        Some((130, true))
    );
    assert_eq!(
        (
            reading.temperature_celsius,
            reading.unsafe_shutdowns,
            reading.power_on_hours,
            reading.spare_percent
        ),
        (Some(41), Some(5), Some(7), Some(99))
    );
    assert_eq!(reading.kind, DriveKind::Ssd);
}

#[test]
fn ocp_physical_writes_give_a_waf() {
    for written in [json!({ "hi": 0, "lo": 1_024_000 }), json!(1_024_000), json!("1024000")] {
        let document = json!({ "data_units_written": "1", "percent_used": 1, "temperature": 314, "ocp": { "Physical media units written": written } });
        let reading = read(&document);
        assert_eq!(
            (host(&reading), nand(&reading), waf(&reading)),
            (Some(512_000), Some(1_024_000), Some(2.0))
        );
        assert_eq!(reading.temperature_celsius, Some(41), "kelvins of nvme-cli");
    }
    let beyond =
        json!({ "data_units_written": 1, "physical_media_units_written": { "hi": 1, "lo": 0 } });
    assert_eq!(nand(&read(&beyond)), None);
}

/// Layout and GUID as in nvme-cli's `ocp-smart-extended-log.c`.
#[test]
fn ocp_page_gives_the_waf_of_its_json_and_other_pages_none() {
    let mut page = [0_u8; 512];
    page[..8].copy_from_slice(&[0, 0x50, 0xd6, 0xdc, 1, 0, 0, 0]);
    page[494] = 3;
    page[496..].copy_from_slice(&[
        0xC5, 0xAF, 0x10, 0x28, 0xEA, 0xBF, 0xF2, 0xA4, 0x9C, 0x4F, 0x6F, 0x7C, 0xC9, 0x14, 0xD5,
        0xAF,
    ]);
    let health = json!({ "data_units_written": 10_000 });
    let with_page = |page: &[u8]| {
        let mut reading = read(&health);
        nvme::add_ocp_log(page, &mut reading);
        reading
    };
    let json = read(&json!({
        "data_units_written": 10_000,
        "Physical media units written": { "hi": 0, "lo": 8_000_000_000_u64 },
    }));
    assert_eq!(with_page(&page), json);
    assert_eq!(waf(&json), Some(1.5625));
    let mut of_other_vendor = page;
    of_other_vendor[511] ^= 1;
    let mut too_much = page;
    too_much[8] = 1;
    for page in [&of_other_vendor[..], &too_much, &page[..511], &[]] {
        assert_eq!(with_page(page), read(&health));
    }
}

#[test]
fn attribute_names_state_the_unit() {
    let reading = read(&ssd(&[
        (225, "Host_Writes_32MiB", 100, 10),
        (241, "Host_Writes_32MiB", 100, 10),
        (243, "NAND_Writes_32MiB", 100, 25),
    ]));
    assert_eq!(
        (host(&reading), nand(&reading), waf(&reading)),
        (Some(10 << 25), Some(25 << 25), Some(2.5))
    );
    assert!(reading.remarks.is_empty(), "{:?}", reading.remarks);
    let counted = reading.waf_counters.unwrap().lifetime().unwrap();
    assert_eq!(
        (counted.low, counted.high),
        (25.0 / 11.0, Some(2.6)),
        "each counter is cut to whole steps"
    );
    let compressed =
        read(&ssd(&[(233, "Flash_Writes_GiB", 100, 3), (241, "Lifetime_Writes_GiB", 100, 4)]));
    assert_eq!(waf(&compressed), Some(0.75));
    let cells = read(&ssd(&[
        (241, "Host_Writes_32MiB", 100, 10),
        (245, "TLC_Writes_32MiB", 100, 20),
        (246, "SLC_Writes_32MiB", 100, 5),
    ]));
    assert_eq!((nand(&cells), waf(&cells)), (Some(25 << 25), Some(2.5)));
}

#[test]
fn programmed_pages_give_a_ratio_but_no_bytes() {
    let reading = read(&ssd(&[
        (246, "Total_LBAs_Written", 100, 3200),
        (247, "Host_Program_Page_Count", 100, 100),
        (248, "Bckgnd_Program_Page_Cnt", 100, 20),
    ]));
    assert_eq!(
        (host(&reading), nand(&reading), waf(&reading)),
        (Some(3200 * 512), None, Some(1.2))
    );
}

#[test]
fn unknown_units_stay_raw_numbers() {
    let reading =
        read(&ssd(&[(241, "Total_LBAs_Written", 99, 1000), (251, "NAND_Writes", 100, 1500)]));
    assert_eq!((host(&reading), nand(&reading), waf(&reading)), (Some(512_000), None, None));
    assert_eq!(
        reading
            .raw_counters
            .iter()
            .map(|counter| (counter.name.as_str(), counter.raw))
            .collect::<Vec<_>>(),
        [("NAND_Writes", 1500)]
    );
    let mut document =
        ssd(&[(241, "Total_LBAs_Written", 99, 1000), (177, "Wear_Leveling_Count", 90, 5)]);
    document["in_smartctl_database"] = false.into();
    let unknown = read(&document);
    assert_eq!(
        (host(&unknown), unknown.used, unknown.raw_counters.len()),
        (None, None, 1),
        "a default name states nothing"
    );
    let mut document = ssd(&[(241, "Total_LBAs_Written", 99, 1000)]);
    document.as_object_mut().unwrap().remove("logical_block_size");
    assert_eq!(host(&read(&document)), None, "no sector size");
    document["user_capacity"] = json!({ "bytes": 4096 * 77, "blocks": 77 });
    assert_eq!(host(&read(&document)), Some(4_096_000));
}

/// smartmontools' issue 312: attribute 241 of a Toshiba HK4R counts 32 MiB under the name
/// of sectors.
#[test]
fn sectors_below_the_capacity_of_a_worn_drive_stay_raw() {
    let sectors = |raw, used| {
        let mut document = ssd(&[(241, "Total_LBAs_Written", 100, raw)]);
        document["user_capacity"] = json!({ "bytes": 1_920_383_410_176_u64 });
        document["endurance_used"] = json!({ "current_percent": used });
        read(&document)
    };
    let worn = sectors(987_654, 5);
    assert_eq!((host(&worn), worn.raw_counters[0].raw), (None, 987_654));
    assert!(worn.raw_counters[0].why.contains("worn"), "{}", worn.raw_counters[0].why);
    assert_eq!(host(&sectors(987_654, 2)), Some(505_678_848), "nearly new");
    assert_eq!(host(&sectors(4_000_000_000, 5)), Some(2_048_000_000_000), "written in full");
}

#[test]
fn halves_of_a_counter_are_not_converted() {
    let parts = [(235, "Flash_LBAs_Written", 100, 7), (237, "Flash_LBAs_Written_Exp", 100, 1)];
    assert_eq!(nand(&read(&ssd(&parts))), None);
    let whole = [(235, "Flash_LBAs_Written", 100, 7), (237, "Flash_LBAs_Written_Exp", 100, 0)];
    assert_eq!(nand(&read(&ssd(&whole))), Some(7 * 512));
}

#[test]
fn device_statistics_win_over_an_attribute_that_disagrees() {
    let attributes = [
        (241, "Total_LBAs_Written", 100, 77),
        (233, "NAND_Writes_1GiB", 100, 9),
        (177, "Wear_Leveling_Count", 50, 5),
    ];
    let reading = read(&statistics(ssd(&attributes), 8 << 21, 12));
    assert_eq!(
        (host(&reading), nand(&reading), waf(&reading)),
        (Some(8 << 30), Some(9 << 30), None)
    );
    assert_eq!(reading.used.map(|used| (used.percent, used.is_standard)), Some((12, true)));
    assert!(reading.remarks[0].contains("Total_LBAs_Written"), "{:?}", reading.remarks);
    let agreeing = read(&statistics(
        ssd(&[(241, "Host_Writes_GiB", 100, 8), (233, "NAND_Writes_1GiB", 100, 16)]),
        (8 << 21) + 5,
        12,
    ));
    assert_eq!((waf(&agreeing), agreeing.remarks), (Some(2.0), vec![]));
}

#[test]
fn explicit_unit_wins_over_sectors_of_the_same_value() {
    let reading = read(&ssd(&[
        (225, "Host_Writes_32MiB", 100, 1000),
        (241, "Total_LBAs_Written", 100, 1000),
    ]));
    assert_eq!(host(&reading), Some(1000 << 25));
    assert_eq!(reading.remarks.len(), 1, "{:?}", reading.remarks);
}

#[test]
fn waf_needs_both_counters_above_zero() {
    for (host, nand) in [(0, 5), (5, 0), (0, 0)] {
        let reading = read(&ssd(&[
            (241, "Host_Writes_GiB", 100, host),
            (233, "NAND_Writes_1GiB", 100, nand),
        ]));
        assert_eq!(waf(&reading), None, "{host} {nand}");
    }
}

#[test]
fn waf_since_a_reading_needs_counters_that_only_rise() {
    let counters = |host, nand| WafCounters {
        host,
        nand,
        unit: WafUnit::Bytes,
        host_step: 1,
        nand_step: 1,
        source: "a".into(),
    };
    let since = counters(300, 700).since(&counters(100, 100)).unwrap();
    assert_eq!((since.value, since.low, since.high), (3.0, 599.0 / 201.0, Some(601.0 / 199.0)));
    for (now, before) in
        [((300, 700), (400, 100)), ((300, 700), (100, 800)), ((300, 700), (300, 600))]
    {
        assert_eq!(counters(now.0, now.1).since(&counters(before.0, before.1)), None);
    }
    let coarse = counters(101, 103).since(&counters(100, 100)).unwrap();
    assert_eq!(
        (coarse.low, coarse.high),
        (1.0, None),
        "one step of the host counter bounds nothing above"
    );
}

#[test]
fn vendor_scales_are_read_in_their_own_direction() {
    for (id, name, normalised, raw, used) in [
        (202, "Percent_Lifetime_Remain", 100, 0, Some(0)),
        (202, "Percent_Lifetime_Remain", 37, 63, Some(63)),
        (202, "Percent_Lifetime_Remain", 0, 120, Some(120)),
        (231, "SSD_Life_Left", 98, 98, Some(2)),
        (169, "Remaining_Lifetime_Perc", 100, 96, Some(4)),
        (202, "Perc_Rated_Life_Used", 90, 10, Some(10)),
        (231, "SSD_Life_Left", 40, 60_000, Some(60)),
        (231, "SSD_Life_Left", 90, 0, Some(10)),
        (231, "SSD_Life_Left", 100, 1, Some(0)),
        (231, "SSD_Life_Left", 100, 60_000, Some(0)),
        (231, "SSD_Life_Left", 200, 60_000, None),
        (202, "Perc_Rated_Life_Used", 40, 80, None),
        (233, "Media_Wearout_Indicator", 55, 0, Some(45)),
        (230, "Media_Wearout_Indicator", 1, 900, None),
        (177, "Wear_Leveling_Count", 91, 1661, Some(9)),
        (177, "Wear_Leveling_Count", 200, 1661, None),
        (226, "Workld_Media_Wear_Indic", 100, 102_400, None),
    ] {
        let reading = read(&ssd(&[(id, name, normalised, raw)]));
        assert_eq!(
            reading.used.map(|used| (used.percent, used.is_standard)),
            used.map(|used| (used, false)),
            "{name} {normalised} {raw}"
        );
    }
}

#[test]
fn packed_and_unset_raw_values_are_not_counters() {
    let mut document = ssd(&[
        (174, "Unsafe_Shutdown_Count", 100, 7),
        (192, "Unexpect_Power_Loss_Ct", 100, (1 << 48) - 1),
    ]);
    assert_eq!(read(&document).unsafe_shutdowns, Some(7));
    document["ata_smart_attributes"]["table"][0]["raw"]["string"] = "7 (2 3)".into();
    assert_eq!(read(&document).unsafe_shutdowns, None);
}

#[test]
fn hard_disks_and_scsi_have_writes_but_no_wear() {
    let mut disk = ssd(&[(241, "Total_LBAs_Written", 100, 10), (189, "High_Fly_Writes", 100, 3)]);
    disk["rotation_rate"] = 7200.into();
    let reading = read(&disk);
    assert_eq!(
        (reading.kind, host(&reading), reading.used),
        (DriveKind::HardDisk, Some(5120), None)
    );
    let old = json!({ "ata_smart_attributes": { "table": [{ "id": 7, "name": "Seek_Error_Rate", "value": 80, "raw": { "value": 1 } }] } });
    assert_eq!(read(&old).kind, DriveKind::HardDisk);
    let sas = json!({ "device": { "protocol": "SCSI" }, "rotation_rate": 0, "scsi_percentage_used_endurance_indicator": 4,
        "scsi_error_counter_log": { "write": { "gigabytes_processed": "127551.260" } } });
    let reading = read(&sas);
    assert_eq!(
        (host(&reading), reading.used.map(|used| used.percent)),
        (Some(127_551_260_000_000), Some(4))
    );
}

#[test]
fn hostile_numbers_are_refused_with_a_remark() {
    for bad in [
        json!(-1),
        json!(1.5),
        json!("18446744073709551616"),
        json!(1e300),
        json!("0x10"),
        json!([1]),
        json!(null),
    ] {
        let reading = read(
            &json!({ "nvme_smart_health_information_log": { "data_units_written": bad, "percentage_used": 1 } }),
        );
        assert_eq!((host(&reading), reading.remarks.len()), (None, 1), "{bad}");
        assert!(reading.host_written_is_impossible, "{bad}");
    }
    let large = read(
        &json!({ "nvme_smart_health_information_log": { "data_units_written": u64::MAX, "percentage_used": 300 } }),
    );
    assert_eq!(
        (host(&large), large.used.is_none(), large.remarks.len()),
        (None, true, 2),
        "{:?}",
        large.remarks
    );
    assert!(large.host_written_is_impossible);
    let without = read(&json!({ "nvme_smart_health_information_log": { "percentage_used": 1 } }));
    assert!(host(&without).is_none() && !without.host_written_is_impossible);
}

#[test]
fn smartctl_document_without_figures_gives_reason() {
    let smartctl = |status: u64, said: &str| json!({ "smartctl": { "exit_status": status, "messages": [{ "string": said, "severity": "error" }] } });
    let error = |document: Value| parse(document.to_string().as_bytes()).unwrap_err();
    assert!(matches!(error(smartctl(2, "Device is in STANDBY mode, exit(2)")), ReadError::Asleep));
    for said in [
        "/dev/sdb: Unknown USB bridge [0x1234:0x5678 (0x100)]",
        "/dev/sdb: Unable to detect device type",
        "Smartctl open device: /dev/sda failed: DELL or MegaRaid controller, please \
            try adding '-d megaraid,N'",
    ] {
        assert!(
            matches!(error(smartctl(1, said)), ReadError::NeedsType(line) if line == said),
            "{said}"
        );
    }
    assert!(matches!(
        error(smartctl(2, "Smartctl open device: /dev/sdz failed")),
        ReadError::Failed { status: 2, .. }
    ));
    assert!(matches!(error(json!({ "a": 1 })), ReadError::Foreign));
    assert!(matches!(parse(b"{\"smartctl\": {").unwrap_err(), ReadError::NotJson(_)));
    assert!(matches!(parse("[".repeat(10_000).as_bytes()).unwrap_err(), ReadError::NotJson(_)));
    let found = read(&{
        let mut document = ssd(&[(241, "Host_Writes_GiB", 100, 1)]);
        document["smartctl"]["exit_status"] = 0b1100.into();
        document
    });
    assert_eq!(
        (host(&found), found.remarks.len()),
        (Some(1 << 30), 2),
        "figures are used, findings are passed on"
    );
}

proptest! {
    #[test]
    fn parse_never_panics_on_any_numbers(name in "(Host|NAND|TLC|Total)_(Writes|LBAs_Written)(_32MiB|_GiB|_9999999999TB)?", raw in any::<u64>(), value in any::<u64>(), sector in any::<u64>()) {
        let mut document = ssd(&[(241, &name, value, raw), (202, "Percent_Lifetime_Remain", value, raw), (247, "Host_Program_Page_Count", value, raw),
            (248, "FTL_Program_Page_Count", raw, value)]);
        document["logical_block_size"] = sector.into();
        let _ = parse(document.to_string().as_bytes());
    }
}

/// 1990-01-01 is 631,152,000 s and 2200-01-01 is 7,258,118,400 s since 1970, as `date`
/// says.
#[test]
fn time_that_cannot_be_right_is_dropped_with_remark() {
    let at = |time: u64| {
        let mut document = ssd(&[]);
        document["local_time"] = json!({ "time_t": time });
        read(&document)
    };
    for time in [631_152_000, 7_258_118_399] {
        let reading = at(time);
        assert_eq!(reading.taken_unix_s, Some(time));
        assert!(
            !reading.remarks.iter().any(|remark| remark.contains("cannot be right")),
            "{:?}",
            reading.remarks
        );
    }
    for time in [0, 631_151_999, 7_258_118_400, u64::MAX] {
        let reading = at(time);
        assert_eq!(reading.taken_unix_s, None);
        assert!(
            reading.remarks.iter().any(|remark| remark.contains("cannot be right")),
            "{:?}",
            reading.remarks
        );
    }
}
