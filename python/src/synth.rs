//! Synthetic traces: profiles in, requests out; and profiles out of traces. It must not know caches.

use std::path::Path;

use lode_synth::check::MAX_REQUESTS;
use lode_synth::{Fitter, Generator, Profile, builtin, builtins};
use lode_trace::{Recorded, limits};
use pyo3::prelude::*;

use crate::error::Failure;
use crate::job::run;
use crate::requests::Builder;
use crate::source::{CHUNK_REQUESTS, Source};

/// Names of the profiles that come with the package, and what they are.
#[pyfunction]
pub fn profiles() -> PyResult<Vec<(String, String)>> {
    let each = builtins().map(|(name, text)| {
        let profile = Profile::parse(text, Path::new(name)).map_err(Failure::from)?;
        Ok((profile.name, profile.about))
    });
    each.collect()
}

/// A trace of a profile: one that comes with the package, or the one of `text`.
#[pyfunction]
#[pyo3(signature = (name, text, requests, seed, scale, progress))]
pub fn synth(
    py: Python<'_>,
    name: &str,
    text: Option<&str>,
    requests: Option<u64>,
    seed: Option<u64>,
    scale: Option<f64>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Source> {
    let mut profile = match text {
        Some(text) => Profile::parse(text, Path::new(name)).map_err(Failure::from)?,
        None => builtin(name).map_err(Failure::from)?.ok_or_else(|| {
            let known: Vec<_> = builtins().map(|(name, _)| name).collect();
            Failure::Usage(format!(
                "No profile is called {name}; there are {}, or name a file",
                known.join(", ")
            ))
        })?,
    };
    if let Some(factor) = scale {
        if !(factor > 0.0 && factor.is_finite()) {
            return Err(Failure::Usage(format!("scale is {factor}; write a number above 0")).into());
        }
        profile = profile.scaled(factor);
    }
    profile.seed = seed.unwrap_or(profile.seed);
    if let Some(requests) = requests.filter(|requests| !(1..=MAX_REQUESTS).contains(requests)) {
        return Err(Failure::Usage(format!("requests is {requests}; write 1 to {MAX_REQUESTS}")).into());
    }
    run(py, progress, |control| {
        let mut generator = Generator::new(&profile)?;
        let total = requests.unwrap_or(generator.requests());
        let volumes = [generator.volume().to_owned()];
        let mut builder = Builder::new(&volumes[0], Recorded::TIMES);
        let (mut all, mut batch, mut left) = (Vec::with_capacity(CHUNK_REQUESTS), Vec::new(), total);
        while left > 0 {
            control.check()?;
            let count = left.min(limits::BATCH_REQUESTS as u64);
            generator.next_batch(&mut batch, count as usize);
            all.append(&mut batch);
            left -= count;
            if left == 0 || all.len() >= CHUNK_REQUESTS {
                builder.push_requests(&all, &volumes);
                all.clear();
            }
            control.tell(total - left, total);
        }
        Ok(Source::of(builder.finish()))
    })
}

/// The profile of a trace, as TOML.
#[pyfunction]
#[pyo3(signature = (source, progress))]
pub fn fit(py: Python<'_>, source: Source, progress: Option<Bound<'_, PyAny>>) -> PyResult<String> {
    run(py, progress, |control| {
        let mut reader = source.open()?;
        let name = reader.stem().to_owned();
        let (mut fitter, mut batch) = (Fitter::default(), Vec::new());
        while reader.next_batch(&mut batch)? > 0 {
            control.check()?;
            fitter.add(&name, &batch)?;
            control.tell_progress(std::iter::once(reader.progress()));
        }
        let mut profile = fitter.finish(&name)?;
        if !reader.has_times() {
            profile.assumed.push("The trace has no times: one request a microsecond".to_owned());
        }
        Ok(profile.to_toml()?)
    })
}
