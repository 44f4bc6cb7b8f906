//! `google.protobuf.Timestamp`: RFC 3339 in JSON.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// 0001-01-01T00:00:00Z, the earliest that JSON can hold.
const MIN_SECONDS: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z, the latest that JSON can hold.
const MAX_SECONDS: i64 = 253_402_300_799;

/// A point in time.
///
/// JSON holds the years 1 to 9999 only; anything outside is written as the nearest end, so that one
/// file with an absurd date cannot spoil a whole listing.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Timestamp {
    /// Seconds since 1970.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds after that second, 0 to 999,999,999.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// Why text is no [`Timestamp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 time between the years 1 and 9999")]
pub struct InvalidTimestamp;

impl Timestamp {
    /// The point that JSON can hold nearest to this one.
    #[must_use]
    pub fn clamped(self) -> Self {
        if self.seconds < MIN_SECONDS {
            return Self {
                seconds: MIN_SECONDS,
                nanos: 0,
            };
        }
        if self.seconds > MAX_SECONDS {
            return Self {
                seconds: MAX_SECONDS,
                nanos: 999_999_999,
            };
        }
        Self {
            seconds: self.seconds,
            nanos: self.nanos.clamp(0, 999_999_999),
        }
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let (seconds, nanos) = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => (
                i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
                after.subsec_nanos(),
            ),
            Err(before) => {
                let before = before.duration();
                let seconds = i64::try_from(before.as_secs()).map_or(i64::MIN, |s| -s);
                match before.subsec_nanos() {
                    0 => (seconds, 0),
                    nanos => (seconds.saturating_sub(1), 1_000_000_000 - nanos),
                }
            }
        };
        Self {
            seconds,
            nanos: i32::try_from(nanos).unwrap_or(0),
        }
    }
}

impl From<Timestamp> for SystemTime {
    /// Clamps first, so that it never overflows.
    fn from(time: Timestamp) -> Self {
        let time = time.clamped();
        let seconds = Duration::from_secs(time.seconds.unsigned_abs());
        let whole = if time.seconds < 0 {
            UNIX_EPOCH - seconds
        } else {
            UNIX_EPOCH + seconds
        };
        whole + Duration::from_nanos(u64::from(time.nanos.unsigned_abs()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, nanos } = self.clamped();
        let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
        let of_day = seconds.rem_euclid(86_400);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
        )?;
        match nanos {
            0 => {}
            n if n % 1_000_000 == 0 => write!(f, ".{:03}", n / 1_000_000)?,
            n if n % 1_000 == 0 => write!(f, ".{:06}", n / 1_000)?,
            n => write!(f, ".{n:09}")?,
        }
        f.write_str("Z")
    }
}

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        parse(text.as_bytes()).ok_or(InvalidTimestamp)
    }
}

fn parse(text: &[u8]) -> Option<Timestamp> {
    let (head, mut rest) = text.split_at_checked(19)?;
    let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if separators.iter().any(|(at, byte)| head[*at] != *byte)
        || !matches!(head[10], b'T' | b't' | b' ')
    {
        return None;
    }
    let year = digits(&head[0..4])?;
    let month = digits(&head[5..7])?;
    let day = digits(&head[8..10])?;
    let (hour, minute, second) = (
        digits(&head[11..13])?,
        digits(&head[14..16])?,
        digits(&head[17..19])?,
    );
    let in_range = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !in_range {
        return None;
    }
    let mut nanos = 0;
    if let Some(after) = rest.strip_prefix(b".") {
        let length = after.iter().take_while(|b| b.is_ascii_digit()).count();
        let (fraction, after) = after.split_at_checked(length)?;
        if !(1..=9).contains(&length) {
            return None;
        }
        nanos = fraction
            .iter()
            .chain(std::iter::repeat(&b'0'))
            .take(9)
            .fold(0, |sum, digit| sum * 10 + i32::from(digit - b'0'));
        rest = after;
    }
    let offset = match rest {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let offset = hours * 3600 + minutes * 60;
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };
    let seconds =
        days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    (MIN_SECONDS..=MAX_SECONDS)
        .contains(&seconds)
        .then_some(Timestamp { seconds, nanos })
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |sum, byte| {
        byte.is_ascii_digit()
            .then(|| sum * 10 + i64::from(byte - b'0'))
    })
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970 of a date, counting years from March so that the leap day is the last.
const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_from_civil`].
const fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Timestamp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an RFC 3339 time")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_of_the_calendar_survives_the_text_form() {
        for (seconds, nanos, text) in [
            (0, 0, "1970-01-01T00:00:00Z"),
            (-1, 500_000_000, "1969-12-31T23:59:59.500Z"),
            (951_782_400, 1_000, "2000-02-29T00:00:00.000001Z"),
            (MIN_SECONDS, 0, "0001-01-01T00:00:00Z"),
            (MAX_SECONDS, 999_999_999, "9999-12-31T23:59:59.999999999Z"),
        ] {
            let time = Timestamp { seconds, nanos };
            assert_eq!(time.to_string(), text);
            assert_eq!(text.parse(), Ok(time));
            assert_eq!(Timestamp::from(SystemTime::from(time)), time);
        }
    }

    #[test]
    fn offsets_are_taken_into_account() {
        assert_eq!(
            "2024-03-01T01:30:00+05:30".parse::<Timestamp>(),
            "2024-02-29T20:00:00Z".parse()
        );
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "2024-02-30T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:00",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00.0123456789Z",
            "0001-01-01T00:00:00+00:01",
            "2024-01-01T00:00:00é",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(InvalidTimestamp), "{text}");
        }
    }

    #[test]
    fn an_absurd_date_is_written_as_the_nearest_end() {
        let late = Timestamp {
            seconds: i64::MAX,
            nanos: -1,
        };
        assert_eq!(late.to_string(), "9999-12-31T23:59:59.999999999Z");
        let early = Timestamp {
            seconds: i64::MIN,
            nanos: 7,
        };
        assert_eq!(early.to_string(), "0001-01-01T00:00:00Z");
    }
}
