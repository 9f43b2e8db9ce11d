#!/bin/sh
# Puts the pinned ClickHouse engine library into the cache, once.
#
#   fetch.sh CACHE_DIR
#
# The library is in CACHE_DIR/chdb/VERSION/libchdb.so only when its SHA-256 is
# the one in libchdb.sha256: it is fetched and checked in a directory of its
# own beside that place and renamed into it last, so an interruption at any
# point leaves either the whole library or none.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
cache=${1:?usage: fetch.sh CACHE_DIR}
package=@chdb/lib-linux-x64-gnu
release=$(sed -n "s|.*\"$package\": \"\\([^\"]*\\)\".*|\\1|p" "$here/package.json")
version=${release%%-*}
want=$(cut -d' ' -f1 "$here/libchdb.sha256")
target="$cache/chdb/$version/libchdb.so"

fail() {
	printf 'engine: %s\n' "$1" >&2
	cat >&2 <<-'TEXT'
	engine: Waybill also works without it. Either
	engine:   give it a ClickHouse server:  waybill up --clickhouse clickhouse://USER:PASSWORD@HOST:9000/waybill
	engine:   or put a clickhouse binary on the PATH: waybill up then runs that one.
	TEXT
	exit 1
}

digest() { sha256sum -- "$1" | cut -d' ' -f1; }

if [ -f "$target" ]; then
	if [ "$(digest "$target")" = "$want" ]; then
		printf 'engine: %s is in place\n' "$target"
		exit 0
	fi
	printf 'engine: %s has the wrong checksum; fetching it again\n' "$target" >&2
fi

platform="$(uname -s) $(uname -m)"
[ "$platform" = "Linux x86_64" ] || fail "the engine library exists for Linux on x86-64 only; this is $platform"
command -v npm >/dev/null 2>&1 || fail "npm is needed to fetch the engine library, and is not on the PATH (Debian: apt install npm)"

mkdir -p "$cache/chdb/$version" || fail "cannot write to $cache (set WAYBILL_CACHE to another directory)"
work=$(mktemp -d "$cache/chdb/.fetch-XXXXXX") || fail "cannot write to $cache/chdb (set WAYBILL_CACHE to another directory)"
ticker=
cleanup() {
	[ -z "$ticker" ] || kill "$ticker" 2>/dev/null || true
	rm -rf -- "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

cp "$here/package.json" "$here/package-lock.json" "$here/.npmrc" "$work/"
printf 'engine: fetching ClickHouse %s (178 MB to download, 566 MB on disk) into %s\n' "$version" "$cache"
( seconds=0; while sleep 5 >/dev/null 2>&1; do seconds=$((seconds + 5)); printf 'engine: still fetching, %s s\n' "$seconds"; done ) &
ticker=$!
( cd "$work" && npm ci --ignore-scripts --loglevel=error ) || fail "npm could not fetch $package $release (its message is above; run make engine again to retry)"
kill "$ticker" 2>/dev/null || true
ticker=

got="$work/node_modules/$package/libchdb.so"
[ -f "$got" ] || fail "$package $release holds no libchdb.so"
sum=$(digest "$got")
[ "$sum" = "$want" ] || fail "libchdb.so has SHA-256 $sum, not $want; it was not installed"
chmod 0755 "$got"
sync -- "$got"
mv -f -- "$got" "$target"
printf 'engine: %s is in place\n' "$target"
