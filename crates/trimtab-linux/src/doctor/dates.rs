//! Days in schedules of cron and systemd that never come, such as 30 February.

/// Days of each month, with 29 February.
const DAYS: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// True if one of the months has one of the days. Unreadable fields count as all of them.
fn comes(months: &str, days: &str, range: &str) -> bool {
    let months = values(months, range, 12).unwrap_or_else(|| (1..=12).collect());
    let first = values(days, range, 31).map_or(Some(1), |days| days.into_iter().min());
    months.iter().filter_map(|month| DAYS.get(*month as usize - 1)).max().is_some_and(|last| first.is_some_and(|first| first <= *last))
}

/// The values of a list of numbers, ranges and repetitions between 1 and `last`.
fn values(field: &str, range: &str, last: u32) -> Option<Vec<u32>> {
    let number = |text: &str| {
        let named = || MONTHS.iter().position(|name| text.eq_ignore_ascii_case(name)).map(|at| at as u32 + 1);
        text.parse().ok().or_else(named).filter(|number| (1..=last).contains(number))
    };
    let mut all = Vec::new();
    for part in field.split(',') {
        let (part, step) = part.split_once('/').map_or((part, None), |(part, step)| (part, Some(step)));
        let (from, to) = match part.split_once(range) {
            _ if part == "*" => (1, last),
            Some((from, to)) => (number(from)?, number(to)?),
            None if step.is_some() => (number(part)?, last),
            None => (number(part)?, number(part)?),
        };
        let step: usize = step.map_or(Some(1), |step| step.parse().ok().filter(|step| *step > 0))?;
        all.extend((from..=to).step_by(step));
    }
    Some(all)
}

/// True if the day of a line of cron never comes. A day of the week that is no star counts as
/// an alternative to the day of the month.
pub fn cron_never_runs(line: &str) -> bool {
    let fields: Vec<&str> = line.split_whitespace().take(5).collect();
    matches!(fields.as_slice(), [_, _, day, month, weekday] if weekday.starts_with('*') && !comes(month, day, "-"))
}

/// True if the date of a calendar expression of systemd never comes.
pub fn calendar_never_elapses(calendar: &str) -> bool {
    let is_date = |word: &&str| word.contains(['-', '~']) && word.bytes().all(|b| b.is_ascii_digit() || b"-~*/,.".contains(&b));
    let Some(date) = calendar.split_ascii_whitespace().find(is_date) else { return false };
    match date.split(['-', '~']).collect::<Vec<_>>().as_slice() {
        [month, day] | [_, month, day] => !comes(month, day, ".."),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cron_line_with_impossible_date_never_runs() {
        for (schedule, expected) in [
            ("0 4 30 2 * fstrim /", true),
            ("0 4 31 feb,APR,6,9-9,11 * fstrim /", true),
            ("0 4 31 2-3 * fstrim /", false),
            ("0 4 31 */2 * fstrim /", false),
            ("0 4 30 2 mon fstrim /", false),
            ("0 4 28-30 2 * fstrim /", false),
            ("0 4 29 2 * fstrim /", false),
            ("0 4 */30 2 * fstrim /", false),
            ("0 4 x 2 * fstrim /", false),
            ("@weekly fstrim /", false),
        ] {
            assert_eq!(cron_never_runs(schedule), expected, "{schedule}");
        }
    }

    #[test]
    fn calendar_with_impossible_date_never_elapses() {
        for (calendar, expected) in [
            ("*-02-30", true),
            ("Mon *-02-30 03:00:00", true),
            ("02-30", true),
            ("*-2,4,6..6-31", true),
            ("*-02~30", true),
            ("*-02-29", false),
            ("*-02~03", false),
            ("*-*-31", false),
            ("*-02/1-31", false),
            ("Mon..Fri 03:00", false),
            ("weekly", false),
            ("Mon *-*-* 00:00:00 America/Port-au-Prince", false),
        ] {
            assert_eq!(calendar_never_elapses(calendar), expected, "{calendar}");
        }
    }
}
