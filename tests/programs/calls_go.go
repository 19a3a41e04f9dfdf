// calls_go [ROUNDS] - direct calls as Go makes them, in several goroutines. What it prints is computed from ROUNDS.
package main

import (
	"fmt"
	"os"
	"strconv"
)

//go:noinline
func leaf(value int) int {
	return value + 1
}

//go:noinline
func down(depth int) int {
	if depth == 0 {
		return 0
	}
	return leaf(down(depth - 1))
}

//go:noinline
func work(rounds int) int {
	sum := 0
	for i := 0; i < rounds; i++ {
		sum += down(10)
	}
	return sum
}

func main() {
	rounds := 1000
	if len(os.Args) > 1 {
		rounds, _ = strconv.Atoi(os.Args[1])
	}
	done := make(chan int)
	for i := 0; i < 4; i++ {
		go func() { done <- work(rounds) }()
	}
	sum := 0
	for i := 0; i < 4; i++ {
		sum += <-done
	}
	fmt.Println(sum)
	fmt.Printf("{\"pid\":%d,\"edges\":[[\"main.work\",\"main.down\",\"direct\",%d],[\"main.down\",\"main.down\",\"direct\",%d],"+
		"[\"main.down\",\"main.leaf\",\"direct\",%d]]}\n", os.Getpid(), rounds*4, rounds*40, rounds*40)
}
