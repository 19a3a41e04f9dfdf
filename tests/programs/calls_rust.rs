// calls_rust [ROUNDS] - calls as rustc makes them: functions, trait objects, closures in boxes, panics that are caught. What it prints is
// computed from ROUNDS, in the form of calls_truth.h.
use std::panic;

#[inline(never)]
fn leaf(value: u64) -> u64 {
    let place = value;
    unsafe { std::ptr::read_volatile(&place) + 1 }
}

trait Shape {
    fn area(&self, scale: u64) -> u64;
}

struct Square(u64);
struct Circle(u64);

impl Shape for Square {
    #[inline(never)]
    fn area(&self, scale: u64) -> u64 {
        leaf(self.0) * scale
    }
}

impl Shape for Circle {
    #[inline(never)]
    fn area(&self, scale: u64) -> u64 {
        leaf(self.0) + leaf(scale)
    }
}

#[inline(never)]
fn thrower(value: u64) -> u64 {
    if leaf(value) % 10 == 0 {
        panic!("ten");
    }
    value
}

#[inline(never)]
fn down(depth: u64) -> u64 {
    if depth == 0 {
        0
    } else {
        leaf(down(depth - 1))
    }
}

#[inline(never)]
fn round(shapes: &[Box<dyn Shape>], boxed: &dyn Fn(u64) -> u64, index: u64) -> u64 {
    let mut sum = 0;
    for shape in shapes {
        sum += shape.area(index);
    }
    sum += boxed(index) + down(10);
    match panic::catch_unwind(|| thrower(index)) {
        Ok(value) => sum + value,
        Err(_) => sum,
    }
}

fn main() {
    let rounds: u64 = std::env::args().nth(1).map_or(1000, |text| text.parse().unwrap());
    let shapes: Vec<Box<dyn Shape>> = vec![Box::new(Square(3)), Box::new(Circle(4))];
    let by = rounds % 7;
    let boxed: Box<dyn Fn(u64) -> u64> = Box::new(move |value| leaf(value) + by);
    let mut sum = 0;
    panic::set_hook(Box::new(|_| {}));
    for index in 0..rounds {
        sum += round(&shapes, &*boxed, index);
    }
    println!("{}", sum);
    println!(
        "{{\"pid\":{},\"edges\":[[\"calls_rust::round\",\"calls_rust::down\",\"\",{}],[\"calls_rust::down\",\"calls_rust::down\",\"\",{}],\
         [\"*\",\"calls_rust::thrower\",\"\",{}],[\"*\",\"calls_rust::leaf\",\"\",{}]]}}",
        std::process::id(), rounds, rounds * 10, rounds, rounds * (3 + 1 + 10 + 1)
    );
}
