//! Where blocks may stand in the levels of schemes that are compared: the same for all of them, as far as they can and
//! nobody asked for something else. It must not know what schemes do, nor how it is shown.

use lode_policy::Settings;
use serde::Serialize;

/// How the schemes of a comparison map blocks to places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mapping {
    /// Whether they do it alike.
    pub kind: MappingKind,
    /// Blocks of a set; 0 with [`MappingKind::Any`], none with [`MappingKind::Mixed`].
    pub assoc: Option<u64>,
    /// How blocks are mapped to sets, by its name among the settings; only with [`MappingKind::Sets`].
    pub map: Option<String>,
    /// Labels of the schemes that have sets by default and were given none here.
    pub undivided: Vec<String>,
}

/// Whether schemes map alike, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MappingKind {
    /// Any block may take any place of its level, with all of them.
    Any,
    /// Blocks belong to sets, the same with all of them.
    Sets,
    /// They differ.
    Mixed,
}

/// Schemes to compare, each with what it is called and its settings, under one [`Mapping`].
#[derive(Clone, Debug)]
pub struct ComparedSchemes {
    schemes: Vec<(String, Settings)>,
    mapping: Mapping,
}

/// What one scheme does: blocks of a set, and how they are mapped to sets where there are any.
type OwnMapping<'a> = (u64, Option<&'a str>);

impl ComparedSchemes {
    /// Where one of the schemes knows no sets, the others have none either; but what was set stays.
    pub fn new(schemes: Vec<(String, Settings)>) -> ComparedSchemes {
        if schemes.iter().all(|(_, settings)| settings.assoc().is_some()) {
            let mapping = mapping_of(&schemes, Vec::new());
            return ComparedSchemes { schemes, mapping };
        }
        let loses_sets = |settings: &Settings| settings.clone().without_sets().assoc() != settings.assoc();
        let changed = schemes.iter().filter(|(_, settings)| loses_sets(settings));
        let undivided = changed.map(|(label, _)| label.clone()).collect();
        let schemes: Vec<_> =
            schemes.into_iter().map(|(label, settings)| (label, settings.without_sets())).collect();
        let mapping = mapping_of(&schemes, undivided);
        ComparedSchemes { schemes, mapping }
    }

    /// The schemes, in the order that they were given in.
    pub fn as_slice(&self) -> &[(String, Settings)] {
        &self.schemes
    }

    /// What they share.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// What there is to say of it, for people: what was changed, and what still differs.
    pub fn notes(&self) -> Vec<String> {
        let undivided = &self.mapping.undivided;
        let about_undivided = (!undivided.is_empty()).then(|| {
            format!(
                "Without sets here (assoc=0), as not all schemes know them: {}; NAME:assoc=N keeps them",
                undivided.join(", ")
            )
        });
        let about_mixed = (self.mapping.kind == MappingKind::Mixed).then(|| self.about_mixed());
        about_undivided.into_iter().chain(about_mixed).collect()
    }

    /// Who maps how, where they differ.
    fn about_mixed(&self) -> String {
        let mut by_mapping: Vec<(OwnMapping<'_>, Vec<&str>)> = Vec::new();
        for (label, settings) in &self.schemes {
            let own = own_mapping(settings);
            match by_mapping.iter_mut().find(|(mapping, _)| *mapping == own) {
                Some((_, labels)) => labels.push(label),
                None => by_mapping.push((own, vec![label])),
            }
        }
        let who: Vec<String> = by_mapping
            .into_iter()
            .map(|(own, labels)| format!("{} with {}", labels.join(", "), in_words(own)))
            .collect();
        format!("Hits differ by mapping, too: {}", who.join("; "))
    }
}

impl Mapping {
    /// In words, for a line of facts.
    pub fn in_words(&self) -> String {
        match (self.kind, self.assoc) {
            (MappingKind::Mixed, _) | (_, None) => "mixed mappings".to_owned(),
            (_, Some(assoc)) => in_words((assoc, self.map.as_deref())),
        }
    }
}

fn own_mapping(settings: &Settings) -> OwnMapping<'_> {
    match settings.assoc() {
        None | Some(0) => (0, None),
        Some(assoc) => (assoc, Some(settings.text("map"))),
    }
}

fn mapping_of(schemes: &[(String, Settings)], undivided: Vec<String>) -> Mapping {
    let mut own = schemes.iter().map(|(_, settings)| own_mapping(settings));
    let (assoc, map) = own.next().unwrap_or((0, None));
    if own.any(|other| other != (assoc, map)) {
        return Mapping { kind: MappingKind::Mixed, assoc: None, map: None, undivided };
    }
    let kind = if assoc == 0 { MappingKind::Any } else { MappingKind::Sets };
    Mapping { kind, assoc: Some(assoc), map: map.map(str::to_owned), undivided }
}

fn in_words((assoc, map): OwnMapping<'_>) -> String {
    match map {
        None => "no sets".to_owned(),
        Some(map) => format!("sets of {assoc} blocks ({map})"),
    }
}
