use super::*;
use trimtab_drive::shipped;
use trimtab_drive::spec::file;
use trimtab_drive::spec::source::SourceKind;
use trimtab_study::learn::candidate::at;
use trimtab_study::learn::classes;

/// Refits two drives; `make catalogue` refits all.
#[test]
fn measured_files_match_the_fit() {
    let known = std::fs::read_to_string(root().join(ROWS)).unwrap();
    let models = models().unwrap();
    for name in ["samsung-ssd-870", "hfs256gd9tng-62a0a"] {
        let measured = models.iter().find(|measured| measured.name() == name).unwrap();
        let entry = fit::entry(measured, &SequentialEvaluator).unwrap();
        assert_eq!(
            std::fs::read_to_string(specification(measured)).unwrap(),
            text::whole(&entry.drive),
            "{name}: make catalogue"
        );
        assert!(known.contains(&rows(measured, &entry)), "{name}: make catalogue");
    }
}

#[test]
fn catalogue_ships_every_measured_model() {
    let mut names: Vec<String> = models().unwrap().iter().map(CatalogueRates::name).collect();
    names.sort();
    let files: Vec<String> =
        shipped::MEASURED.iter().map(|text| file::parse(text).unwrap().spec.name).collect();
    assert_eq!(files, names);
    assert!(shipped::MEASURED.iter().all(|text| {
        let drive = file::parse(text).unwrap();
        drive.spec.validate().is_ok() && text::whole(&drive) == **text
    }));
    let in_directory = std::fs::read_dir(root().join("drives/measured")).unwrap().count();
    assert_eq!(in_directory, names.len());
}

/// Values that no rate determines are marked as such.
#[test]
fn fitted_values_lie_within_their_intervals() {
    for text in shipped::MEASURED {
        let drive = file::parse(text).unwrap();
        let fitted =
            drive.sources.iter().filter(|(_, source)| source.text.starts_with("six rates"));
        let table: toml::Table = text.parse().unwrap();
        let mut checked = 0;
        for (field, source) in fitted {
            let value = field
                .split('.')
                .fold(toml::Value::Table(table.clone()), |value, part| value[part].clone())
                .as_integer()
                .unwrap();
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
fn models_error_names_invalid_line() {
    let header = "kind,model,size_bytes,sequential_read_Bps,sequential_read_4k_iops,random_read_4k_iops,sequential_write_Bps,sequential_write_4k_iops,random_write_4k_iops,result";
    let wrong = |line: &str| fit::models(&format!("{header}\n{line}\n")).unwrap_err();
    assert_eq!(wrong("sata,a,1000,1,2,3,4,5"), "line 2 has no random_write_4k_iops");
    assert_eq!(wrong("sata,a,1000,1,2,x,4,5,6,r"), "line 2: random_read_4k_iops is not a rate");
    assert_eq!(fit::models("").unwrap_err(), "the header is missing");
    let two =
        fit::models(&format!("{header}\nsata,a,1000,1,2,3,4,5,6,r\nsata,a,1000,4,2,3,4,5,6,s\n"))
            .unwrap();
    assert_eq!((two.len(), two[0].results.len()), (1, 2));
    let (mean, spread) = two[0].rates()[0];
    assert!((mean - 2.0).abs() < 1e-9 && (spread - 4.0).abs() < 1e-9);
}

/// Class priors of PCIe drives match mean and spread of the catalogue's fitted values.
#[test]
fn priors_of_pcie_drives_agree_with_the_catalogue() {
    let nvme =
        models().unwrap().into_iter().find(|measured| measured.kind == "nvme").unwrap().reported();
    let priors = classes::priors(&nvme);
    for number in [at::RATE, at::OVERHEAD, at::WRITE_OVERHEAD, at::READ] {
        let drives = shipped::MEASURED.iter().map(|text| file::parse(text).unwrap());
        let fitted = drives.filter(|drive| drive.spec.interface.full_duplex).filter_map(|drive| {
            let fitted = drive
                .sources
                .get(classes::PARAMETERS[number].field)
                .is_some_and(|source| source.kind == SourceKind::Fitted);
            let flash = &drive.spec.flash;
            let interface = &drive.spec.interface;
            let value = match number {
                at::RATE => interface.rate_bytes_per_s,
                at::OVERHEAD => interface.command_overhead_ns,
                at::WRITE_OVERHEAD => interface.write_overhead_ns?,
                _ => flash.nand.read_ns,
            };
            fitted.then(|| libm::log(value as f64))
        });
        let fitted: Vec<f64> = fitted.collect();
        let mean = fitted.iter().sum::<f64>() / fitted.len() as f64;
        let sigma = libm::sqrt(
            fitted.iter().map(|one| (one - mean) * (one - mean)).sum::<f64>() / fitted.len() as f64,
        );
        let prior = priors[number];
        let off = libm::fabs(libm::log(prior.median) - mean);
        assert!(
            fitted.len() >= 15 && off < 0.25 && libm::fabs(prior.sigma - sigma) < 0.25,
            "{}: {:.3e}, {sigma:.2}",
            classes::PARAMETERS[number].field,
            libm::exp(mean)
        );
    }
}
