// Goroutines on threads of their own pass numbers on for some seconds; the sum must be right.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	numbers, sums := make(chan int, 64), make(chan int, 8)
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			sum := 0
			for n := range numbers {
				garbage := make([]int, n%1000+1)
				for j := range garbage {
					garbage[j] = n
				}
				sum += garbage[n%len(garbage)]
			}
			sums <- sum
		}()
	}
	want, n := 0, 0
	for until := time.Now().Add(time.Duration(seconds * float64(time.Second))); time.Now().Before(until); n++ {
		numbers <- n
		want += n
	}
	close(numbers)
	group.Wait()
	got := 0
	for i := 0; i < 4; i++ {
		got += <-sums
	}
	if got == want && n > 0 {
		fmt.Println("well")
	} else {
		fmt.Println(got, "and not", want)
	}
}
