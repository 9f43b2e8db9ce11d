package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// processorTime is what this process and the engine have used since they began.
type processorTime struct{ ours, engine time.Duration }

func spent(engine int) processorTime {
	return processorTime{ours: usedBy(os.Getpid()), engine: usedBy(engine)}
}

// usedBy reads the processor time of a process where there is /proc, and else
// knows of none.
func usedBy(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, second, may hold anything; utime and stime are the 14th and 15th.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var ticks int64
	for _, i := range []int{11, 12} {
		if len(fields) > i {
			n, _ := strconv.ParseInt(fields[i], 10, 64)
			ticks += n
		}
	}
	const tick = time.Second / 100 // USER_HZ, the same on every Linux
	return time.Duration(ticks) * tick
}
