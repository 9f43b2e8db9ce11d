package text

import "fmt"

// Integer is what can be counted with.
type Integer interface{ ~int | ~int64 | ~uint64 }

// Count is n with the word for one, or for many.
func Count[N Integer](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
