//! Work that may panic, by a defect, without an end to what is beside it. It must not know what the work is.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does the work. What it was at must not be used again after an error, which is what it said in its panic.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_words() {
        assert_eq!(guarded(|| 7), Ok(7));
        let number = 3;
        assert_eq!(guarded(|| panic!("the {number}rd")), Err::<(), _>("the 3rd".to_owned()));
        assert_eq!(guarded(|| panic!("plain")), Err::<(), _>("plain".to_owned()));
        assert!(
            guarded(|| std::panic::panic_any(7)).is_err_and(|text: String| text.contains("without words"))
        );
    }
}
