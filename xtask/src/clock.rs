//! The one place that reads the calendar clock. Only stamps come from here; no result depends on them.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970-01-01T00:00:00Z; 0 if the machine's clock is set before that.
#[expect(
    clippy::disallowed_methods,
    reason = "stamps of run folders and reports; removed before reports are compared"
)]
pub fn unix_secs() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs())
}

/// The present as RFC 3339 in UTC, to the second.
pub fn now_rfc3339() -> String {
    rfc3339(unix_secs())
}

/// A moment as RFC 3339 in UTC.
///
/// # Example
/// ```
/// assert_eq!(xtask::clock::rfc3339(951_782_400), "2000-02-29T00:00:00Z");
/// ```
pub fn rfc3339(unix_secs: u64) -> String {
    let (year, month, day) = civil_from_days(unix_secs / 86_400);
    let rest = unix_secs % 86_400;
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// A moment as part of a folder's name: `20000229T000000Z`.
pub fn stamp(unix_secs: u64) -> String {
    rfc3339(unix_secs).replace(['-', ':'], "")
}

/// Year, month and day of a count of days since 1970-01-01, in the Gregorian calendar.
///
/// # Source
/// Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`, for days from 1970 on.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(unix_secs: u64, expect: &str) {
        assert_eq!(rfc3339(unix_secs), expect);
    }

    #[test]
    fn epoch() {
        check(0, "1970-01-01T00:00:00Z");
    }

    #[test]
    fn last_second_of_a_year() {
        check(1_735_689_599, "2024-12-31T23:59:59Z");
    }

    #[test]
    fn day_after_a_leap_day() {
        check(1_709_251_200, "2024-03-01T00:00:00Z");
    }

    /// A clock that is set to nonsense costs a stamp and no run.
    #[test]
    fn any_clock_has_a_stamp() {
        for secs in [0, 1, u64::from(u32::MAX), u64::MAX] {
            assert!(stamp(secs).ends_with('Z'));
        }
    }

    #[test]
    fn stamps_have_no_separators() {
        assert_eq!(stamp(0), "19700101T000000Z");
    }
}
