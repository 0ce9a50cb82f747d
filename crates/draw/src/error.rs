//! The crate's one error type: numbers that make no picture. It must not know what the numbers mean.

/// What is wrong with the data, for matching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DrawErrorKind {
    /// Not a finite number, or one beyond [`crate::limits::MAX_NUMBER`].
    Number,
    /// Points of a curve that do not ascend.
    Order,
    /// Two lists that belong together have different lengths.
    Length,
    /// There is nothing to draw, or nothing above zero on a logarithmic axis.
    Empty,
    /// More than one of [`crate::limits`] allows.
    Limit,
    /// A slider or number field that the page does not have, or a start outside its range.
    Control,
}

/// Data that cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Cannot draw {place}: {problem}")]
pub struct DrawError {
    kind: DrawErrorKind,
    place: String,
    problem: String,
}

impl DrawError {
    pub(crate) fn new(
        kind: DrawErrorKind,
        place: impl Into<String>,
        problem: impl Into<String>,
    ) -> DrawError {
        DrawError { kind, place: place.into(), problem: problem.into() }
    }

    /// What went wrong, for matching.
    pub fn kind(&self) -> DrawErrorKind {
        self.kind
    }
}

/// Checks one number.
pub(crate) fn check_number(value: f64, place: impl Fn() -> String) -> Result<(), DrawError> {
    if value.is_finite() && value.abs() <= crate::limits::MAX_NUMBER {
        return Ok(());
    }
    let problem = format!("{value} is not a number from -1e30 to 1e30; leave it out");
    Err(DrawError::new(DrawErrorKind::Number, place(), problem))
}

/// Checks a count against a limit.
pub(crate) fn check_limit(count: usize, most: usize, place: impl Fn() -> String) -> Result<(), DrawError> {
    if count <= most {
        return Ok(());
    }
    let problem = format!("{count} are too many; give at most {most}");
    Err(DrawError::new(DrawErrorKind::Limit, place(), problem))
}

/// Checks that two lists belong together.
pub(crate) fn check_length(count: usize, wanted: usize, place: impl Fn() -> String) -> Result<(), DrawError> {
    if count == wanted {
        return Ok(());
    }
    let problem = format!("there are {count} values for {wanted} places; give one for each");
    Err(DrawError::new(DrawErrorKind::Length, place(), problem))
}
