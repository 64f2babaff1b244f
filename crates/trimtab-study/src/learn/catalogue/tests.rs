//! The files in drives/measured are what the fit gives: all are written by `TRIMTAB_CATALOGUE=write` (`make catalogue`), two are made again in every run of the tests.

use super::*;
use crate::learn::fit::OneByOne;
use std::fs;
use std::path::PathBuf;
use std::println;
use trimtab_drive::shipped;
use trimtab_drive::spec::{file, text};

fn root(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}

fn all() -> Vec<Measured> {
    models(&fs::read_to_string(root("docs/real-drives.csv")).unwrap()).unwrap()
}

const ROWS: &str = "docs/catalogue.csv";
const HEADER: &str = "# What drives of drives/measured show beside what was published: the geometric mean of the repeats, how many times the greatest of them is the least, the model's. `make catalogue` writes this.\ndrive,rate,published,repeats,modelled\n";

fn rows(name: &str, entry: &Entry) -> String {
    let row =
        |(rate, (published, spread, shown)): (&str, (f64, f64, f64))| format!("{name},{rate},{published:.0},{spread:.3},{shown:.0}\n");
    RATES.into_iter().zip(entry.rates).map(row).collect()
}

#[test]
fn files_are_what_the_fit_gives() {
    let write = std::env::var("TRIMTAB_CATALOGUE").is_ok();
    let (mut table, mut made) = (String::from(HEADER), 0);
    let known = fs::read_to_string(root(ROWS)).unwrap_or_default();
    for measured in all().iter().filter(|measured| write || ["samsung-ssd-870", "hfs256gd9tng-62a0a"].contains(&measured.name().as_str())) {
        let entry = entry(measured, &OneByOne).unwrap();
        let (name, of_file) = (measured.name(), text::whole(&entry.drive));
        let path = root(&format!("drives/measured/{name}.toml"));
        let rows = rows(&name, &entry);
        if write {
            fs::write(&path, &of_file).unwrap();
            println!("{rows}");
            table.push_str(&rows);
        } else {
            assert_eq!(fs::read_to_string(&path).unwrap(), of_file, "{name}: make catalogue");
            assert!(known.contains(&rows), "{name}: make catalogue");
        }
        made += 1;
    }
    assert!(made >= 2);
    if write {
        fs::write(root(ROWS), table).unwrap();
    }
}

#[test]
fn there_is_a_file_of_each_model_and_the_program_has_it() {
    let mut names: Vec<String> = all().iter().map(Measured::name).collect();
    names.sort();
    let files: Vec<String> = shipped::MEASURED.iter().map(|text| file::parse(text).unwrap().spec.name).collect();
    assert_eq!(files, names);
    assert!(shipped::MEASURED.iter().all(|text| {
        let drive = file::parse(text).unwrap();
        drive.spec.validate().is_ok() && text::whole(&drive) == **text
    }));
    let in_directory = fs::read_dir(root("drives/measured")).unwrap().count();
    assert_eq!(in_directory, names.len());
}

/// Every figure that is called fitted lies in its own interval, and what is no rate's business says so.
#[test]
fn figures_say_where_they_come_from() {
    for text in shipped::MEASURED {
        let drive = file::parse(text).unwrap();
        let fitted = drive.sources.iter().filter(|(_, source)| source.text.starts_with("six rates"));
        let table: toml::Table = text.parse().unwrap();
        let mut checked = 0;
        for (field, source) in fitted {
            let value = field.split('.').fold(toml::Value::Table(table.clone()), |value, part| value[part].clone()).as_integer().unwrap();
            let bounds = source.text.split("have ").nth(1).unwrap();
            let (least, most) = bounds.split_once(" to ").unwrap();
            let within = least.parse::<i64>().unwrap()..=most.parse::<i64>().unwrap();
            assert!(within.contains(&value), "{} {field}: {value} in {within:?}", drive.spec.name);
            checked += 1;
        }
        assert!(checked >= 2, "{}", drive.spec.name);
        assert_eq!(drive.source_of("flash.trim.command_ns").unwrap().kind, SourceKind::Assumed);
    }
}

#[test]
fn lines_that_are_none_are_named() {
    let header = "kind,model,size_bytes,sequential_read_Bps,sequential_read_4k_iops,random_read_4k_iops,sequential_write_Bps,sequential_write_4k_iops,random_write_4k_iops,result";
    let wrong = |line: &str| models(&format!("{header}\n{line}\n")).unwrap_err();
    assert_eq!(wrong("sata,a,1000,1,2,3,4,5"), "line 2 has no random_write_4k_iops");
    assert_eq!(wrong("sata,a,1000,1,2,x,4,5,6,r"), "line 2: random_read_4k_iops is no rate");
    assert_eq!(models("").unwrap_err(), "there is no header");
    let two = models(&format!("{header}\nsata,a,1000,1,2,3,4,5,6,r\nsata,a,1000,4,2,3,4,5,6,s\n")).unwrap();
    assert_eq!((two.len(), two[0].results.len()), (1, 2));
    let (mean, spread) = two[0].rates()[0];
    assert!((mean - 2.0).abs() < 1e-9 && (spread - 4.0).abs() < 1e-9);
}

/// What is thought of PCIe drives before one is measured is as those of the catalogue are, where their rates told it.
#[test]
fn the_class_is_as_the_catalogue() {
    let nvme = all().into_iter().find(|measured| measured.kind == "nvme").unwrap().reported();
    let priors = classes::priors(&nvme);
    for number in [at::RATE, at::OVERHEAD, at::WRITE_OVERHEAD, at::READ] {
        let drives = shipped::MEASURED.iter().map(|text| file::parse(text).unwrap());
        let told = drives.filter(|drive| drive.spec.interface.full_duplex).filter_map(|drive| {
            let told = drive.sources.get(FIELDS[number]).is_some_and(|source| source.kind == SourceKind::Fitted);
            let flash = drive.spec.flash()?;
            let interface = &drive.spec.interface;
            let value = match number {
                at::RATE => interface.rate_bytes_per_s,
                at::OVERHEAD => interface.command_overhead_ns,
                at::WRITE_OVERHEAD => interface.write_overhead_ns?,
                _ => flash.nand.read_ns,
            };
            told.then(|| libm::log(value as f64))
        });
        let told: Vec<f64> = told.collect();
        let mean = told.iter().sum::<f64>() / told.len() as f64;
        let sigma = libm::sqrt(told.iter().map(|one| (one - mean) * (one - mean)).sum::<f64>() / told.len() as f64);
        let prior = priors[number];
        let off = libm::fabs(libm::log(prior.median) - mean);
        assert!(
            told.len() >= 15 && off < 0.25 && libm::fabs(prior.sigma - sigma) < 0.25,
            "{}: {:.3e}, {sigma:.2}",
            FIELDS[number],
            libm::exp(mean)
        );
    }
}
