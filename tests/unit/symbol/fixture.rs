// Rust for the tests of the symbol module.
use std::collections::HashMap;

pub struct Counter<T> {
    pub seen: HashMap<T, u64>,
}

impl<T: std::hash::Hash + Eq> Counter<T> {
    #[inline(never)]
    pub fn add(&mut self, key: T) -> u64 {
        let entry = self.seen.entry(key).or_insert(0);
        *entry += 1;
        *entry
    }
}

#[inline(never)]
fn sum_of_squares(values: &[u64]) -> u64 {
    values.iter().map(|value| value * value).filter(|square| square % 3 != 0).sum()
}

fn main() {
    let mut counter = Counter { seen: HashMap::new() };
    for word in std::env::args() {
        counter.add(word);
    }
    let values: Vec<u64> = (0..counter.seen.len() as u64 + 10).collect();
    println!("{}", sum_of_squares(&values));
}
