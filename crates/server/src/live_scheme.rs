//! The scheme of a volume while it is served, and the one that is to decide after it. It must not know who asks for another.

use lode_engine::Engine;
use lode_policy::{Quota, Settings, Sizer};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct LiveScheme {
    settings: Settings,
    /// It divides the share that the configuration gives it, as long as the host divides nothing.
    sizer: Sizer,
    host_measures: bool,
    next: Option<Next>,
}

/// A scheme that does not decide yet.
#[derive(Debug)]
struct Next {
    settings: Settings,
    /// Switches that there were before.
    switches_before: u64,
}

/// What became of a scheme that was to decide.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SwitchEnd {
    /// It does, instead of this one.
    Done { from: &'static str },
    /// A device failed before it could: the one before goes on.
    GivenUp { to: &'static str },
}

impl LiveScheme {
    /// The scheme that a volume begins with, which has this share.
    pub(crate) fn new(settings: Settings, host_measures: bool, share: Quota) -> LiveScheme {
        let sizer = sizer(&settings, host_measures, share);
        LiveScheme { settings, sizer, host_measures, next: None }
    }

    /// The one that decides.
    pub(crate) fn name(&self) -> &'static str {
        self.settings.scheme()
    }

    /// The one that is to decide.
    pub(crate) fn next_name(&self) -> Option<&'static str> {
        self.next.as_ref().map(|next| next.settings.scheme())
    }

    /// A request has been handed to the engine.
    pub(crate) fn after_request(&mut self, engine: &mut Engine, now_ns: u64) {
        self.sizer.after_request(now_ns, std::slice::from_mut(engine));
    }

    /// Has the engine decide with these settings, unless it does already. False: a device has failed, and the scheme stays.
    pub(crate) fn switch(
        &mut self,
        engine: &mut Engine,
        settings: &Settings,
        largest_share: Option<Quota>,
    ) -> bool {
        let asked_for = self.next.as_ref().map_or(&self.settings, |next| &next.settings);
        if asked_for == settings {
            return true;
        }
        let switches_before = engine.gauges().scheme_switches;
        let is_taken = engine.switch_scheme(settings, largest_share);
        if is_taken {
            self.next = Some(Next { settings: settings.clone(), switches_before });
        }
        is_taken
    }

    /// What became of the scheme that was to decide, once.
    pub(crate) fn switched(&mut self, engine: &Engine) -> Option<SwitchEnd> {
        let Next { settings, switches_before } = self.next.take_if(|_| !engine.is_switching())?;
        if engine.gauges().scheme_switches == switches_before {
            return Some(SwitchEnd::GivenUp { to: settings.scheme() });
        }
        let from = self.name();
        self.sizer = sizer(&settings, self.host_measures, engine.share());
        self.settings = settings;
        Some(SwitchEnd::Done { from })
    }
}

fn sizer(settings: &Settings, host_measures: bool, share: Quota) -> Sizer {
    match host_measures {
        true => Sizer::new(&settings.clone().without_sizing(), share),
        false => Sizer::new(settings, share),
    }
}
