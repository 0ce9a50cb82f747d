//! The commands, one file each. A new one is its file and its line in each of the two lists below.

mod behind;
mod budget;
mod check;
mod compare;
mod compare_each;
mod curve;
mod demo;
mod device;
mod devices;
mod divide;
mod drain;
mod events;
mod format;
mod paper;
mod planning;
mod recover;
mod reload;
mod replay;
mod requests;
mod run;
mod schemes;
mod serve;
mod serve_config;
mod size;
mod size_text;
mod status;
mod stop;
mod top;
mod trace;
mod vm;
mod vm_drain;
mod vm_membership;
mod volume;

use clap::Subcommand;

pub use self::events::event_text;
use crate::error::CliError;

/// Makes the enumeration of commands from their argument types, which have a method `run`.
macro_rules! commands {
    ($($name:ident($arguments:ty)),* $(,)?) => {
        /// What to do.
        #[derive(Subcommand)]
        pub enum Command {
            $($name($arguments)),*
        }

        impl Command {
            /// Does it.
            pub fn run(&self) -> Result<(), CliError> {
                match self {
                    $(Command::$name(command) => command.run()),*
                }
            }
        }
    };
}

commands! {
    Check(check::CheckCommand),
    Compare(compare::CompareCommand),
    Curve(curve::CurveCommand),
    Demo(demo::DemoCommand),
    Device(device::DeviceCommand),
    Devices(devices::DevicesCommand),
    Divide(divide::DivideCommand),
    Drain(drain::DrainCommand),
    Events(events::EventsCommand),
    Format(format::FormatCommand),
    Paper(paper::PaperCommand),
    Recover(recover::RecoverCommand),
    Reload(reload::ReloadCommand),
    Replay(replay::ReplayCommand),
    Requests(requests::RequestsCommand),
    Run(run::RunCommand),
    Schemes(schemes::SchemesCommand),
    Serve(serve::ServeCommand),
    Size(size::SizeCommand),
    Status(status::StatusCommand),
    Stop(stop::StopCommand),
    Top(top::TopCommand),
    Trace(trace::TraceCommand),
    Vm(vm::VmCommand),
    Volume(volume::VolumeCommand),
}
