//! fio job files: refused at one of their lines, or read again from their printed form.

use trimtab_sim::workload::jobs::JobFile;

/// Runs one input.
pub fn run(text: &str) {
    match JobFile::parse(text) {
        Err(error) => assert!((1..=text.lines().count().max(1) as u32).contains(&error.line)),
        Ok(file) => {
            for job in &file.jobs {
                let printed = format!("[{}]\n{}\n", job.name, job.to_string().replace(' ', "\n"));
                let again = JobFile::parse(&printed).expect("the printed form is read again");
                assert_eq!(again.jobs[0].to_string(), job.to_string());
            }
        }
    }
}
