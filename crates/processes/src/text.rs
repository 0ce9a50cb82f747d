//! Scripts as users write them: processes, locks, events and writes, a line each. Every complaint names its line. It must not
//! know how a script is run, nor files.

use std::collections::HashMap;

use lode_policy::criticality::Object;

use crate::script::{
    DataKind, EventInfo, IoTarget, MAX_SCRIPT_ITEMS, MAX_WRITE_BLOCKS, Mode, Primitive, Program, Script,
    Step, WriteOp,
};
use crate::{RequestsError, Stuck};

/// Most operations of a script, with its repetitions written out.
pub const MAX_TEXT_STEPS: usize = 1 << 20;

/// A script that was read, with the names and lines that it had.
#[derive(Clone, Debug, Default)]
pub struct ScriptText {
    processes: Vec<Process>,
    locks: Vec<(String, Primitive)>,
    events: Vec<ScriptEvent>,
    /// Settings that the script wants, as KEY and VALUE, with their lines.
    pub settings: Vec<(String, String, usize)>,
    log: Option<(u64, u64)>,
    log_disk: bool,
}

#[derive(Clone, Debug)]
struct Process {
    name: String,
    steps: Vec<(Step, usize)>,
}

#[derive(Clone, Debug)]
struct ScriptEvent {
    name: String,
    primitive: Primitive,
    /// Names of those who bring it about.
    by: Vec<String>,
    line: usize,
}

/// What is wrong in a script, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Line {line}: {message}")]
pub struct TextError {
    /// From 1.
    pub line: usize,
    /// What it says, and what to do.
    pub message: String,
}

type Read<T> = Result<T, String>;

impl ScriptText {
    /// Reads a script.
    ///
    /// # Errors
    /// At the first line that makes no sense, or names what there is not.
    pub fn read(text: &str) -> Result<ScriptText, TextError> {
        let mut reader = Reader::default();
        for (at, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
            reader.line = at + 1;
            reader.take(&words).map_err(|message| TextError { line: at + 1, message })?;
        }
        reader.finish()
    }

    /// Names of the processes.
    pub fn processes(&self) -> Vec<&str> {
        self.processes.iter().map(|process| process.name.as_str()).collect()
    }

    /// The script, to run once.
    pub fn script(&self) -> Script {
        let program = |process: &Process| {
            let steps: Vec<Step> = process.steps.iter().map(|(step, _)| *step).collect();
            Box::new(steps.into_iter()) as Box<dyn Program>
        };
        let number = |name: &String| self.processes.iter().position(|process| process.name == *name);
        let event = |event: &ScriptEvent| EventInfo {
            primitive: event.primitive,
            deliverers: event.by.iter().filter_map(number).map(|number| number as u32).collect(),
        };
        let (log_first_block, log_blocks) = self.log.unwrap_or((1 << 40, 0));
        Script {
            programs: self.processes.iter().map(program).collect(),
            roles: self.processes.iter().map(|process| process.name.clone()).collect(),
            locks: self.locks.iter().map(|(_, primitive)| *primitive).collect(),
            events: self.events.iter().map(event).collect(),
            tags: 0,
            log_first_block,
            log_blocks,
            separate_log_disk: self.log_disk,
        }
    }

    /// What went wrong in a run, in the script's own names, with lines.
    pub fn explain(&self, error: &RequestsError) -> String {
        match error {
            RequestsError::BadOp { process, step, what } => {
                let process = &self.processes[*process as usize];
                let line = process.steps.get(*step as usize).map_or(0, |(_, line)| *line);
                format!("Line {line}: process {} cannot {what}; correct the script", process.name)
            }
            RequestsError::Deadlock { cycle } => {
                let waits: Vec<String> = cycle.iter().map(|stuck| self.show(stuck)).collect();
                format!("Processes wait for each other: {}; correct the script", waits.join("; "))
            }
            RequestsError::WaitsForEver { stuck } => {
                let waits: Vec<String> = stuck.iter().map(|stuck| self.show(stuck)).collect();
                format!("Nobody ends a wait: {}; correct the script", waits.join("; "))
            }
            other => other.to_string(),
        }
    }

    fn show(&self, stuck: &Stuck) -> String {
        let process = &self.processes[stuck.process as usize];
        let line = process.steps.get(stuck.step as usize).map_or(0, |(_, line)| *line);
        let object = match stuck.object {
            Object::Lock(lock) => format!("lock {}", self.locks[lock as usize].0),
            Object::Event(event) => format!("event {}", self.events[event as usize].name),
            Object::Write(_) => "a write".to_owned(),
        };
        format!("{} waits for {object} in line {line}", process.name)
    }
}

/// Where reading is.
#[derive(Default)]
struct Reader {
    line: usize,
    found: ScriptText,
    lock_numbers: HashMap<String, u32>,
    event_numbers: HashMap<String, u32>,
    /// How often, from which step of the process on, and in which line it began.
    repeat: Option<(usize, usize, usize)>,
    steps: usize,
}

impl Reader {
    fn take(&mut self, words: &[&str]) -> Read<()> {
        match words {
            [] => Ok(()),
            ["set", key, value] => {
                self.found.settings.push(((*key).to_owned(), (*value).to_owned(), self.line));
                Ok(())
            }
            ["lock", name, "as", primitive] if self.found.processes.is_empty() => {
                self.declare_lock(name, primitive_of(primitive)?)
            }
            ["lock", name] if self.found.processes.is_empty() => self.declare_lock(name, Primitive::Mutex),
            ["event", name, "by", by @ ..] => self.declare_event(name, by),
            ["log", first, blocks] => self.declare_log(first, blocks, false),
            ["log", first, blocks, "on", "its", "own", "disk"] => self.declare_log(first, blocks, true),
            ["process", name] => self.begin_process(name, false),
            ["process", name, "critical"] => self.begin_process(name, true),
            ["repeat", times] => self.begin_repeat(times),
            ["end"] => self.end_repeat(),
            step => {
                if self.found.processes.is_empty() {
                    return Err(format!(
                        "'{}' belongs to a process; write 'process NAME' before it, or one of set, lock, event, log",
                        step.join(" ")
                    ));
                }
                let step = self.step(step)?;
                self.push(step)
            }
        }
    }

    fn finish(mut self) -> Result<ScriptText, TextError> {
        if let Some((.., line)) = self.repeat {
            return Err(TextError { line, message: "this repeat has no 'end'".to_owned() });
        }
        if self.found.processes.is_empty() {
            let message = "there is no process; write 'process NAME' and what it does below".to_owned();
            return Err(TextError { line: self.line.max(1), message });
        }
        let known = |name: &String| self.found.processes.iter().any(|process| process.name == *name);
        for event in &self.found.events {
            if let Some(name) = event.by.iter().find(|name| !known(name)) {
                let message = format!("there is no process '{name}' to bring about event {}", event.name);
                return Err(TextError { line: event.line, message });
            }
        }
        Ok(std::mem::take(&mut self.found))
    }

    fn declare_lock(&mut self, name: &str, primitive: Primitive) -> Read<()> {
        declare(&mut self.lock_numbers, "lock", name)?;
        self.found.locks.push((name.to_owned(), primitive));
        Ok(())
    }

    fn declare_event(&mut self, name: &str, by: &[&str]) -> Read<()> {
        if !self.found.processes.is_empty() {
            return Err("declare events before the first process".to_owned());
        }
        let (by, primitive) = match by {
            [by @ .., "as", primitive] => (by, primitive_of(primitive)?),
            by => (by, Primitive::Other),
        };
        if by.is_empty() {
            return Err("say who brings the event about: event NAME by PROCESS".to_owned());
        }
        declare(&mut self.event_numbers, "event", name)?;
        let by = by.iter().map(|name| name.trim_end_matches(',').to_owned()).collect();
        self.found.events.push(ScriptEvent { name: name.to_owned(), primitive, by, line: self.line });
        Ok(())
    }

    fn declare_log(&mut self, first: &str, blocks: &str, own_disk: bool) -> Read<()> {
        if self.found.log.is_some() {
            return Err("the log is declared already".to_owned());
        }
        let (first, blocks) = (whole(first, 0, 1 << 40)?, whole(blocks, 1, 1 << 40)?);
        (self.found.log, self.found.log_disk) = (Some((first, blocks)), own_disk);
        Ok(())
    }

    fn begin_process(&mut self, name: &str, critical: bool) -> Read<()> {
        if self.repeat.is_some() {
            return Err("the repeat before it has no 'end'".to_owned());
        }
        if self.found.processes.iter().any(|process| process.name == name) {
            return Err(format!("there is a process '{name}' already"));
        }
        if self.found.processes.len() == MAX_SCRIPT_ITEMS {
            return Err(format!("there are more than {MAX_SCRIPT_ITEMS} processes"));
        }
        self.found.processes.push(Process { name: name.to_owned(), steps: Vec::new() });
        if critical { self.push(Step::SetCritical(true)) } else { Ok(()) }
    }

    fn begin_repeat(&mut self, times: &str) -> Read<()> {
        if self.repeat.is_some() {
            return Err("a repeat cannot be inside another".to_owned());
        }
        let times = whole(times, 0, MAX_TEXT_STEPS as u64)? as usize;
        let Some(process) = self.found.processes.last() else {
            return Err("repeat belongs to a process; write 'process NAME' before it".to_owned());
        };
        self.repeat = Some((times, process.steps.len(), self.line));
        Ok(())
    }

    fn end_repeat(&mut self) -> Read<()> {
        let Some((times, from, _)) = self.repeat.take() else {
            return Err("there is no repeat that this ends".to_owned());
        };
        let Some(process) = self.found.processes.last_mut() else { return Ok(()) };
        let once = process.steps.split_off(from);
        self.steps -= once.len();
        if self.steps + once.len().saturating_mul(times) > MAX_TEXT_STEPS {
            return Err(format!("the script has more than {MAX_TEXT_STEPS} steps"));
        }
        self.steps += once.len() * times;
        process.steps.extend(std::iter::repeat_n(once, times).flatten());
        Ok(())
    }

    fn push(&mut self, step: Step) -> Read<()> {
        self.steps += 1;
        if self.steps > MAX_TEXT_STEPS {
            return Err(format!("the script has more than {MAX_TEXT_STEPS} steps"));
        }
        if let Some(process) = self.found.processes.last_mut() {
            process.steps.push((step, self.line));
        }
        Ok(())
    }

    fn step(&self, words: &[&str]) -> Read<Step> {
        let lock = |name| number_of(&self.lock_numbers, "lock", name);
        let event = |name| number_of(&self.event_numbers, "event", name);
        Ok(match words {
            ["cpu", time] => Step::Cpu { ns: time_ns(time)? },
            ["sleep", time] => Step::Sleep { ns: time_ns(time)? },
            ["lock", name] => Step::Lock { lock: lock(name)?, mode: Mode::Write },
            ["lock", name, "shared"] => Step::Lock { lock: lock(name)?, mode: Mode::Read },
            ["unlock", name] => Step::Unlock { lock: lock(name)? },
            ["wait", name] => Step::Wait { event: event(name)? },
            ["signal", name] => Step::Signal { event: event(name)? },
            ["call", name] => Step::Call { event: event(name)? },
            ["collect", name] => Step::Collect { event: event(name)? },
            ["deliver", name] => Step::Deliver { event: event(name)? },
            ["write", rest @ ..] => Step::Write(write_of(rest)?),
            ["append", blocks] if self.found.log.is_some() => {
                Step::Append { blocks: whole(blocks, 1, u64::from(MAX_WRITE_BLOCKS))? as u32 }
            }
            ["append", _] => return Err("there is no log; declare it with 'log FIRST BLOCKS'".to_owned()),
            ["await", block] => await_of(block, Primitive::LockPage)?,
            ["await", block, "as", primitive] => await_of(block, primitive_of(primitive)?)?,
            ["fsync"] => Step::Fsync,
            ["request", "begins"] => Step::RequestBegin,
            ["request", "ends"] => Step::RequestEnd { requests: 1 },
            ["critical", "on"] => Step::SetCritical(true),
            ["critical", "off"] => Step::SetCritical(false),
            other => {
                return Err(format!(
                    "'{}' is not a step; there are cpu, sleep, lock, unlock, wait, signal, call, collect, deliver, write, \
                     append, await, fsync, request begins|ends, critical on|off, repeat and end",
                    other.join(" ")
                ));
            }
        })
    }
}

fn declare(numbers: &mut HashMap<String, u32>, what: &str, name: &str) -> Read<()> {
    let number = numbers.len();
    if number == MAX_SCRIPT_ITEMS {
        return Err(format!("there are more than {MAX_SCRIPT_ITEMS} {what}s"));
    }
    match numbers.insert(name.to_owned(), number as u32) {
        None => Ok(()),
        Some(_) => Err(format!("there is a {what} '{name}' already")),
    }
}

fn number_of(numbers: &HashMap<String, u32>, what: &str, name: &str) -> Read<u32> {
    numbers
        .get(name)
        .copied()
        .ok_or_else(|| format!("there is no {what} '{name}'; declare it before the first process"))
}

fn primitive_of(name: &str) -> Read<Primitive> {
    Primitive::from_name(name).ok_or_else(|| {
        let names = Primitive::ALL.map(Primitive::name);
        format!("'{name}' is not a kind of wait; there are {}", names.join(", "))
    })
}

fn whole(text: &str, low: u64, high: u64) -> Read<u64> {
    let number: Option<u64> = text.parse().ok();
    number
        .filter(|number| (low..=high).contains(number))
        .ok_or_else(|| format!("'{text}' is not a whole number from {low} to {high}"))
}

/// `250us`, `2.5ms`, `1s`: at most an hour.
fn time_ns(text: &str) -> Read<u64> {
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let of = |(unit, ns): (&str, f64)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * ns);
    units
        .into_iter()
        .find_map(of)
        .filter(|ns| (0.0..=crate::MAX_CPU_NS as f64).contains(ns))
        .map(|ns| ns.round() as u64)
        .ok_or_else(|| format!("'{text}' is not a time from 0s to 3600s; write 250us, 2.5ms or 1s"))
}

fn await_of(block: &str, primitive: Primitive) -> Read<Step> {
    Ok(Step::WaitIo { target: IoTarget::Block(whole(block, 0, u64::MAX)?), primitive })
}

/// `BLOCK [BLOCKS] [sync|async|submit] [data|log|metadata|journal]`.
fn write_of(words: &[&str]) -> Read<WriteOp> {
    let Some((block, mut rest)) = words.split_first() else {
        return Err("say which block: write BLOCK [BLOCKS] [sync|async|submit] [data|log|metadata|journal]"
            .to_owned());
    };
    let mut write = WriteOp {
        tag: None,
        first_block: whole(block, 0, u64::MAX - u64::from(MAX_WRITE_BLOCKS))?,
        blocks: 1,
        sync: true,
        waits: true,
        data: DataKind::Db,
    };
    if let Some((blocks, others)) = rest.split_first()
        && blocks.starts_with(|c: char| c.is_ascii_digit())
    {
        write.blocks = whole(blocks, 1, u64::from(MAX_WRITE_BLOCKS))? as u32;
        rest = others;
    }
    for word in rest {
        match *word {
            "sync" => (write.sync, write.waits) = (true, true),
            "async" => (write.sync, write.waits) = (false, false),
            "submit" => (write.sync, write.waits) = (true, false),
            "data" => write.data = DataKind::Db,
            "log" => write.data = DataKind::Log,
            "metadata" => write.data = DataKind::Metadata,
            "journal" => write.data = DataKind::Journal,
            other => {
                return Err(format!(
                    "'{other}' says nothing of a write; there are sync, async, submit, data, log, metadata, journal"
                ));
            }
        }
    }
    Ok(write)
}
