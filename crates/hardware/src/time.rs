//! Lengths of time as ratings and reports count them. It must not know what they are used for.

/// Nanoseconds of a second.
pub const SECOND_NS: f64 = 1e9;

/// Seconds of an hour.
pub const SECONDS_PER_HOUR: f64 = 3600.0;

/// Hours of a day.
pub const HOURS_PER_DAY: f64 = 24.0;

/// Days of a year, in endurance ratings and lives: no leap years.
pub const DAYS_PER_YEAR: f64 = 365.0;

/// Seconds of a day.
pub const SECONDS_PER_DAY: f64 = HOURS_PER_DAY * SECONDS_PER_HOUR;

/// Hours of such a year, TICA's mission.
pub const HOURS_PER_YEAR: f64 = DAYS_PER_YEAR * HOURS_PER_DAY;
