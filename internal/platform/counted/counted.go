// Package counted writes how many there are of something, as people do.
package counted

import "fmt"

// Integer is what can be counted with.
type Integer interface{ ~int | ~int64 | ~uint64 }

// Of is n with the word for one, or for many.
func Of[N Integer](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
