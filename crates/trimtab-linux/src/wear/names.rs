//! The meaning of ATA attribute names. smartmontools' drive database chooses the names,
//! and the unit of a counter is part of its name: `Host_Writes_32MiB`,
//! `NAND_GiB_Written`.

/// Writes by the host, or writes to the flash memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Data that the host wrote.
    Host,
    /// Data that the drive wrote to flash memory.
    Nand,
}

/// The unit that a name states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// This number of bytes.
    Bytes(u64),
    /// Logical sectors.
    Sectors,
    /// The name states none.
    Unknown,
}

/// A counter of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteName {
    pub side: Side,
    pub unit: Unit,
    /// Counts one kind of flash cell only (`SLC`, `TLC`).
    pub is_of_cell: bool,
    /// Holds the low or the high digits of a counter only.
    pub is_part: bool,
}

/// A counter of programmed pages, whose size no name states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageName {
    /// Pages programmed with data of the host.
    Host,
    /// Pages programmed by the drive itself.
    Background,
}

/// A percentage of the rated life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeName {
    Remaining,
    Used,
}

const WRITES: &str = "write writes written wrt wr wts";
const PROGRAMS: &str = "prog prg program programmed programs";
const HOST: &str = "host hst ssd device drive user";
const NAND: &str = "nand flash flsh media";
const CELLS: &str = "slc pslc mlc tlc qlc";
const PARTS: &str = "low lo l high hi h exp";
const SECTORS: &str = "lba lbas sector sectors";
/// Words of counters that count events, not data.
const EVENTS: &str = "
    ampfctr amplification ampflication blk block blocks cmd cmds command commands erase erased erases err error
    errors fail failed failure failures fly head page pages perc percent plane protect rate rd rds read reads retried
    retry temperature throttle throttling timed workld";

fn words(name: &str) -> Vec<String> {
    name.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect()
}

/// One of the words is in the list `any`, which spaces separate.
fn has(words: &[String], any: &str) -> bool {
    any.split_ascii_whitespace().any(|one| words.iter().any(|word| word == one))
}

/// The counter of writes that has this name.
pub fn write_name(name: &str) -> Option<WriteName> {
    let words = words(name);
    let (is_of_cell, host) = (has(&words, CELLS), has(&words, HOST));
    let nand = is_of_cell || has(&words, NAND);
    let writes = has(&words, WRITES) || nand && has(&words, PROGRAMS);
    let total = has(&words, "total tot lifetime");
    let unit = unit(&words);
    if !writes || has(&words, EVENTS) || !(host || nand || total || unit != Unit::Unknown) {
        return None;
    }
    let side = if nand { Side::Nand } else { Side::Host };
    // A name with both sides does not say which one it counts.
    let unit = if nand && host && !has(&words, "ssd device drive") { Unit::Unknown } else { unit };
    Some(WriteName { side, unit, is_of_cell, is_part: has(&words, PARTS) })
}

fn unit(words: &[String]) -> Unit {
    let mut units = words.iter().filter_map(|word| bytes_of(word).map(Unit::Bytes));
    match (units.next(), units.next(), has(words, SECTORS)) {
        (Some(unit), None, false) => unit,
        (None, None, true) => Unit::Sectors,
        _ => Unit::Unknown,
    }
}

/// `32mib` is 2^25, `gb` is 10^9, `512b` is 512. A bare `b` is no unit.
fn bytes_of(word: &str) -> Option<u64> {
    let digits = word.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = word.split_at(digits);
    let factor: u64 = match unit {
        "b" if !number.is_empty() => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return None,
    };
    let number: u64 = if number.is_empty() { 1 } else { number.parse().ok()? };
    number.checked_mul(factor).filter(|bytes| *bytes > 0)
}

/// The counter of programmed pages that has this name.
pub fn page_name(name: &str) -> Option<PageName> {
    let words = words(name);
    let pages = has(&words, PROGRAMS) && has(&words, "page pages") && !has(&words, "fail error");
    match (has(&words, "host hst"), has(&words, "bckgnd background bg ftl")) {
        (true, false) if pages => Some(PageName::Host),
        (false, true) if pages => Some(PageName::Background),
        _ => None,
    }
}

/// The percentage of the rated life that has this name.
pub fn life_name(name: &str) -> Option<LifeName> {
    let letters: String =
        name.chars().filter(char::is_ascii_alphabetic).map(|c| c.to_ascii_lowercase()).collect();
    let others = [
        "capacitor",
        "spare",
        "rsvd",
        "reserv",
        "block",
        "blk",
        "timed",
        "workld",
        "protect",
        "unused",
        "temp",
    ];
    // A name such as `SSD_LifeLeft(0.01%)` states another scale.
    let is_of_life =
        (letters.contains("life") || letters.contains("endurance")) && !name.contains("0.");
    if !is_of_life || others.iter().any(|other| letters.contains(other)) {
        return None;
    }
    match (letters.contains("remain") || letters.contains("left"), letters.contains("used")) {
        (true, false) => Some(LifeName::Remaining),
        (false, true) => Some(LifeName::Used),
        _ => None,
    }
}

/// An attribute that counts power cuts for which the drive was not prepared.
pub fn is_unsafe_shutdown(name: &str) -> bool {
    let words = words(name);
    let says = |word: &str| words.iter().any(|own| own.starts_with(word));
    let is_test = has(&words, "cap capacitor test health protection");
    let loss =
        says("unexp") && (says("power") || says("pwr")) || says("unsafe") && says("shutdown");
    loss && !is_test
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_name_takes_side_and_unit_from_the_words() {
        use Side::{Host, Nand};
        let gib = 1 << 30;
        for (name, side, unit) in [
            ("Host_Writes_32MiB", Host, Unit::Bytes(32 << 20)),
            ("Host_Writes_MiB", Host, Unit::Bytes(1 << 20)),
            ("Lifetime_Writes_GiB", Host, Unit::Bytes(gib)),
            ("Total_Writes_GB", Host, Unit::Bytes(1_000_000_000)),
            ("Lifetime_Wts_Frm_Hst_GB", Host, Unit::Bytes(1_000_000_000)),
            ("Total_LBAs_Written", Host, Unit::Sectors),
            ("Write_Sectors_Tot_Ct", Host, Unit::Sectors),
            ("Sectors_Written_to_SSD", Host, Unit::Sectors),
            ("Device_Sectors_Written", Host, Unit::Sectors),
            ("Lifetime_Writes", Host, Unit::Unknown),
            ("NAND_Writes_32MiB", Nand, Unit::Bytes(32 << 20)),
            ("NAND_Writes_1GiB", Nand, Unit::Bytes(gib)),
            ("NAND_GiB_Written", Nand, Unit::Bytes(gib)),
            ("Flash_Writes_GiB", Nand, Unit::Bytes(gib)),
            ("Lifetime_NAND_Prg_GiB", Nand, Unit::Bytes(gib)),
            ("Total_NAND_Prog_Ct_GiB", Nand, Unit::Bytes(gib)),
            ("Lifetime_Wts_To_Flsh_GB", Nand, Unit::Bytes(1_000_000_000)),
            ("Flash_LBAs_Written", Nand, Unit::Sectors),
            ("NAND_Write_Sector_Cnt", Nand, Unit::Sectors),
            ("NAND_Writes", Nand, Unit::Unknown),
            ("Total_Media_Writes", Nand, Unit::Unknown),
            ("Host_Writes_to_NAND_GiB", Nand, Unit::Unknown),
        ] {
            let parsed = write_name(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!((parsed.side, parsed.unit, parsed.is_part), (side, unit, false), "{name}");
        }
        assert!(
            write_name("TLC_Writes_32MiB").unwrap().is_of_cell
                && write_name("NAND_GB_Written_SLC").unwrap().is_of_cell
        );
        assert!(
            write_name("Flash_Writes_LBAs_Low").unwrap().is_part
                && write_name("Host_LBA_Write_Exp").unwrap().is_part
        );
    }

    #[test]
    fn write_name_refuses_counters_of_events() {
        for name in [
            "High_Fly_Writes",
            "Write_Error_Rate",
            "Host_Reads_32MiB",
            "Total_LBAs_Read",
            "Flash_GB_Erased",
            "Total_Write/Erase_Count",
            "Program_Fail_Count",
            "NAND_Reads_Sectors",
            "Write_Throttling",
            "Number_Of_Write_Ct",
            "Host_Program_Page_Count",
            "Flash_ID",
            "Write_AmpFctr",
            "Write_Commands_Tot_Ct",
            "Write_Protect_Mode",
            "Unknown_Attribute",
            "Total_NAND_Read_Ct_GiB",
            "Lifetime_Nand_Gb",
        ] {
            assert_eq!(write_name(name), None, "{name}");
        }
    }

    #[test]
    fn life_name_needs_life_and_a_direction() {
        for name in [
            "Percent_Lifetime_Remain",
            "SSD_Life_Left",
            "Remaining_Lifetime_Perc",
            "DriveLife_Remaining%",
            "SSD_LifeLeft",
        ] {
            assert_eq!(life_name(name), Some(LifeName::Remaining), "{name}");
        }
        for name in ["Percent_Lifetime_Used", "Perc_Rated_Life_Used", "Drive_Life_Used%"] {
            assert_eq!(life_name(name), Some(LifeName::Used), "{name}");
        }
        for name in [
            "Capacitor_Life",
            "SSD_LifeLeft(0.01%)",
            "Spare_Blocks_Remaining",
            "End_of_Life",
            "Life_Curve_Status",
            "Lifetime_UECC_Ct",
        ] {
            assert_eq!(life_name(name), None, "{name}");
        }
    }

    #[test]
    fn page_name_and_unsafe_shutdown_know_spelling_variants() {
        assert_eq!(
            [
                "Host_Program_Page_Count",
                "Bckgnd_Program_Page_Cnt",
                "FTL_Program_Page_Count",
                "Program_Fail_Count"
            ]
            .map(page_name),
            [Some(PageName::Host), Some(PageName::Background), Some(PageName::Background), None]
        );
        for name in [
            "Unsafe_Shutdown_Count",
            "Unexpect_Power_Loss_Ct",
            "Unexpected_Pwr_Loss_Cnt",
            "Unexpect_PwrLoss_Ct",
        ] {
            assert!(is_unsafe_shutdown(name), "{name}");
        }
        assert!(
            !["Power_Loss_Cap_Test", "Power-Off_Retract_Count", "Power_Cycle_Count"]
                .iter()
                .any(|name| is_unsafe_shutdown(name))
        );
    }
}
