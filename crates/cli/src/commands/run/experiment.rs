//! An experiment as its file describes it: steps, each a command of the planner with traces and options, and the words that the
//! command is given. It must not know how steps are run.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Value;

use crate::amounts::path_word;
use crate::error::CliError;

/// Commands that a step may be: they read traces, and write results.
pub const COMMANDS: [&str; 4] = ["compare", "curve", "replay", "size"];

/// What a step may write, beside its text.
pub const OUTPUTS: [&str; 5] = ["csv", "html", "json", "png", "svg"];

/// Options that may name a file, which then is relative to the experiment's folder as traces are.
const FILE_OPTIONS: [&str; 3] = ["devices", "drive", "plan"];

/// An experiment.
#[derive(Debug)]
pub struct Experiment {
    /// What it is about.
    pub title: Option<String>,
    /// Where results go.
    pub results: PathBuf,
    /// In the order of the file.
    pub steps: Vec<Step>,
}

/// One command.
#[derive(Debug)]
pub struct Step {
    /// What its results are called.
    pub name: String,
    /// Which of [`COMMANDS`].
    pub command: String,
    /// The traces, by their paths.
    pub traces: Vec<PathBuf>,
    /// Other files that its options name.
    pub files: Vec<PathBuf>,
    /// The options, without those of the outputs.
    pub options: Vec<String>,
    /// Which of [`OUTPUTS`].
    pub outputs: Vec<String>,
}

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: Option<String>,
    #[serde(default)]
    traces: Vec<String>,
    results: Option<PathBuf>,
    #[serde(default)]
    step: Vec<StepTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepTable {
    name: String,
    command: String,
    traces: Option<Vec<String>>,
    outputs: Option<Vec<String>>,
    #[serde(default)]
    options: BTreeMap<String, Value>,
}

impl Experiment {
    /// The experiment of a file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// When it cannot be read, or describes what cannot be.
    pub fn load(path: &Path) -> Result<Experiment, CliError> {
        let failed = |error| {
            CliError::Failure(format!("Cannot read {}: {error}; check path and rights", path.display()))
        };
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let in_file = |message: String| CliError::Usage(format!("{}: {message}", path.display()));
        let file: File = toml::from_str(&text).map_err(|error| in_file(error.to_string()))?;
        if file.step.is_empty() {
            return Err(in_file("there is no [[step]]; write one with name and command".to_owned()));
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let usual = PathBuf::from(path.file_stem().unwrap_or_default()).with_extension("results");
        let results = folder.join(file.results.unwrap_or(usual));
        let steps = file.step.into_iter().map(|table| {
            let name = table.name.clone();
            Step::new(table, folder, &file.traces).map_err(|error| in_file(format!("step '{name}': {error}")))
        });
        let steps = steps.collect::<Result<Vec<Step>, CliError>>()?;
        let mut names = HashSet::new();
        match steps.iter().find(|step| !names.insert(step.name.as_str())) {
            Some(twice) => Err(in_file(format!("two steps are called '{}'", twice.name))),
            None => Ok(Experiment { title: file.title, results, steps }),
        }
    }
}

impl Step {
    fn new(table: StepTable, folder: &Path, traces: &[String]) -> Result<Step, String> {
        let StepTable { name, command, outputs, options, .. } = table;
        let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
        if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
            return Err(
                "name it with letters, digits, '-', '_' and '.', as its results are called so".to_owned()
            );
        }
        one_of(&command, &COMMANDS, "command")?;
        let outputs = outputs.unwrap_or_else(|| vec!["json".to_owned()]);
        outputs.iter().try_for_each(|output| one_of(output, &OUTPUTS, "output"))?;
        let patterns = table.traces.as_deref().unwrap_or(traces);
        if patterns.is_empty() {
            return Err("it has no traces; write traces = [...] in it, or above all steps".to_owned());
        }
        let mut found = Vec::new();
        for pattern in patterns {
            found.extend(matching(folder, pattern)?);
        }
        let (mut words, mut files) = (Vec::new(), Vec::new());
        for (key, mut value) in options {
            if let (true, Value::String(text)) = (FILE_OPTIONS.contains(&key.as_str()), &mut value)
                && let file = folder.join(&*text)
                && file.is_file()
            {
                *text = path_word(&file.to_string_lossy());
                files.push(file);
            }
            if OUTPUTS.contains(&key.as_str()) {
                return Err(format!("write outputs = [\"{key}\"] in place of the option {key}"));
            }
            words.extend(option_words(&key, &value)?);
        }
        Ok(Step { name, command, traces: found, files, options: words, outputs })
    }

    /// What it is called as, with its results in this folder.
    pub fn words(&self, results: &Path) -> Vec<String> {
        let mut words = vec![self.command.clone()];
        words.extend(self.traces.iter().map(|trace| path_word(&trace.to_string_lossy())));
        words.extend(self.options.iter().cloned());
        words.extend(self.outputs.iter().map(|output| {
            format!("--{output}={}", results.join(format!("{}.{output}", self.name)).display())
        }));
        words
    }
}

fn one_of(word: &str, known: &[&str], what: &str) -> Result<(), String> {
    match known.contains(&word) {
        true => Ok(()),
        false => Err(format!("there is no {what} '{word}'; write one of {}", known.join(", "))),
    }
}

/// The files that a pattern names, by their names.
fn matching(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
    let whole = folder.join(pattern);
    let text = whole.to_str().ok_or_else(|| format!("'{pattern}' is not UTF-8"))?;
    let paths =
        glob::glob(text).map_err(|error| format!("'{pattern}' is not a pattern of file names: {error}"))?;
    let found: Vec<PathBuf> = paths
        .collect::<Result<_, _>>()
        .map_err(|error| format!("Cannot look for '{pattern}': {error}; check rights"))?;
    match found.is_empty() {
        true => Err(format!("no trace is called '{}'", whole.display())),
        false => Ok(found),
    }
}

/// An option and its values as the command takes them: true is the option alone, a list the option again and again.
fn option_words(key: &str, value: &Value) -> Result<Vec<String>, String> {
    let option = format!("--{}", key.replace('_', "-"));
    let with = |text: String| Ok(vec![format!("{option}={text}")]);
    match value {
        Value::Boolean(true) => Ok(vec![option]),
        Value::Boolean(false) => Ok(Vec::new()),
        Value::String(text) => with(text.clone()),
        Value::Integer(number) => with(number.to_string()),
        Value::Float(number) => with(number.to_string()),
        Value::Array(values) => {
            Ok(values.iter().map(|value| option_words(key, value)).collect::<Result<Vec<_>, _>>()?.concat())
        }
        Value::Datetime(_) | Value::Table(_) => {
            Err(format!("option {key} is a text, a number, true, false or a list of these"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_words() {
        let options: BTreeMap<String, Value> = toml::from_str(
            "schemes = [\"lru\", \"etica:mode=npe\"]\nread_ssd = \"1%\"\neach = true\nno-replay = false\nthreads = 2",
        )
        .unwrap();
        let words: Vec<String> =
            options.iter().flat_map(|(key, value)| option_words(key, value).unwrap()).collect();
        let expected =
            ["--each", "--read-ssd=1%", "--schemes=lru", "--schemes=etica:mode=npe", "--threads=2"];
        assert_eq!(words, expected);
        assert!(option_words("x", &Value::Table(toml::Table::new())).is_err());
    }
}
