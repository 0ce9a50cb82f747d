//! x
fn main() {
    let seed: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let c = match std::env::args().nth(2).unwrap().as_str() {
        "p" => lode_sim::Crash::Power,
        "k" => lode_sim::Crash::Kill,
        "s" => lode_sim::Crash::Stop,
        _ => lode_sim::Crash::Any,
    };
    for p in lode_sim::attack_plans(seed, c) {
        for m in &p.machines {
            println!("{} {} {:?} kept {}", m.name, m.settings.scheme(), m.config.quota, m.kept_records);
        }
        println!(
            "rounds {} req {} depth {} long {} faults {:?} failed_starts {} sre {} shares {} drains {} ends {} steps {:?} flips {}",
            p.rounds,
            p.requests,
            p.depth,
            p.longest_sectors,
            p.faults,
            p.failed_starts,
            p.start_read_errors,
            p.shares_backing,
            p.drains,
            p.ends_drained,
            p.most_steps,
            p.flips
        );
    }
    println!("{:?}", lode_sim::attack(seed, c));
}
