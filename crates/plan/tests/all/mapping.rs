//! Which mapping schemes share that are compared.

use lode_plan::{ComparedSchemes, MappingKind};
use lode_policy::{SchemeInfo, all_schemes};

fn compared(schemes: &[&str]) -> ComparedSchemes {
    let parse = |text: &&str| {
        let mut parts = text.split(':');
        let mut settings = SchemeInfo::find(parts.next().unwrap()).unwrap().settings();
        parts.for_each(|pair| settings.set_pair(pair).unwrap());
        ((*text).to_owned(), settings)
    };
    ComparedSchemes::new(schemes.iter().map(parse).collect())
}

/// `assoc` of each scheme; -1: it knows no sets.
fn ways(compared: &ComparedSchemes) -> Vec<i64> {
    compared.as_slice().iter().map(|(_, settings)| settings.assoc().map_or(-1, |ways| ways as i64)).collect()
}

#[test]
fn schemes_share_one_mapping_unless_somebody_asked_for_another() {
    use MappingKind::{Any, Mixed, Sets};
    for (schemes, expected_ways, kind, undivided) in [
        (&["lru", "fifo", "etica"][..], &[512, 512, 512][..], Sets, 0),
        (&["lru:assoc=64", "rpac:assoc=64"], &[64, 64], Sets, 0),
        (&["lru", "arc", "flashcache"], &[0, -1, 0], Any, 2),
        (&["lru:assoc=0", "arc"], &[0, -1], Any, 0),
        (&["arc", "sieve"], &[-1, -1], Any, 0),
        (&["lru", "arc", "fifo:assoc=512"], &[0, -1, 512], Mixed, 1),
        (&["lru", "lru:assoc=0"], &[512, 0], Mixed, 0),
        (&["lru", "lru:map=jhash"], &[512, 512], Mixed, 0),
        (&["lru:map=jhash", "arc"], &[0, -1], Any, 1),
        (&[], &[], Any, 0),
    ] {
        let compared = compared(schemes);
        let mapping = compared.mapping();
        assert_eq!(ways(&compared), expected_ways, "{schemes:?}");
        assert_eq!((mapping.kind, mapping.undivided.len()), (kind, undivided), "{schemes:?}");
        assert_eq!(mapping.assoc.is_none(), kind == Mixed, "{schemes:?}");
        assert_eq!(mapping.map.is_some(), kind == Sets, "{schemes:?}");
        let notes = usize::from(undivided > 0) + usize::from(kind == Mixed);
        assert_eq!(compared.notes().len(), notes, "{schemes:?}");
    }
}

#[test]
fn all_schemes_together_share_one() {
    let names: Vec<&str> = all_schemes().iter().map(|info| info.name).collect();
    assert_eq!(compared(&names).mapping().kind, MappingKind::Any);
    let with_sets = all_schemes().iter().filter(|info| info.settings().assoc().is_some());
    let names: Vec<&str> = with_sets.map(|info| info.name).collect();
    let compared = compared(&names);
    assert_eq!((compared.mapping().kind, compared.mapping().assoc), (MappingKind::Sets, Some(512)));
}

#[test]
fn who_differs_is_named() {
    let compared = compared(&["lru", "arc", "fifo:assoc=8"]);
    assert_eq!(
        compared.notes(),
        [
            "Without sets here (assoc=0), as not all schemes know them: lru; NAME:assoc=N keeps them",
            "Hits differ by mapping, too: lru, arc with no sets; fifo:assoc=8 with sets of 8 blocks (modulo)",
        ]
    );
    assert_eq!(compared.mapping().in_words(), "mixed mappings");
}
