package verify

import (
	"crypto/sha256"
	"math/bits"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// frontier is the tree over the first size records, as far as what comes behind
// them needs it: the roots of its full subtrees, the largest first.
type frontier struct {
	size  uint64
	roots []tlog.Hash // one for each bit that size has
}

// add puts a full subtree of 2^level leaves behind. size MUST be a multiple of 2^level.
func (f *frontier) add(level int, h tlog.Hash) {
	for bit := uint64(1) << level; f.size&bit != 0; bit <<= 1 {
		last := len(f.roots) - 1
		h = tlog.NodeHash(f.roots[last], h)
		f.roots = f.roots[:last]
		f.size -= bit
		level++
	}
	f.roots = append(f.roots, h)
	f.size += 1 << level
}

// root is the tree's root as RFC 6962 defines it.
func (f *frontier) root() tlog.Hash {
	if len(f.roots) == 0 {
		return sha256.Sum256(nil)
	}
	h := f.roots[len(f.roots)-1]
	for i := len(f.roots) - 2; i >= 0; i-- {
		h = tlog.NodeHash(f.roots[i], h)
	}
	return h
}

func (f *frontier) clone() frontier { return frontier{f.size, slices.Clone(f.roots)} }

// valid says whether there are as many roots as the size needs.
func (f *frontier) valid() bool { return bits.OnesCount64(f.size) == len(f.roots) }
