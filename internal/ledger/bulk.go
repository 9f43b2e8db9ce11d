package ledger

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/ClickHouse/ch-go"
	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	"github.com/waybill-dev/waybill/internal/ledger/verify"
)

// bulkReader reads whole columns, as the server keeps them, on a connection of
// its own: what reads a row at a time takes longer than everything else that
// verifying does. It implements verify.ChunkReader.
type bulkReader struct {
	db      *DB
	client  *ch.Client
	columns []column
	readers []columnReader
	result  proto.Results
	query   string
	match   *matcher

	idx, seq *numbers[uint64]
	epoch    *numbers[int64]
	body     *texts
	tenant   *texts
	at       *instants
	id       *texts
}

// Open implements verify.Source.
func (s *Verified) Open(ctx context.Context) (verify.ChunkReader, error) {
	r := &bulkReader{db: s.DB, columns: s.columns}
	byName := map[string]columnReader{}
	var names []string
	for _, c := range r.columns {
		reader := c.reader()
		r.readers = append(r.readers, reader)
		r.result = append(r.result, proto.ResultColumn{Name: c.name, Data: reader.data()})
		byName[c.name] = reader
		names = append(names, c.name)
	}
	r.idx, r.seq = byName["idx"].(*numbers[uint64]), byName["stream_seq"].(*numbers[uint64])
	r.epoch, r.body, r.at = byName["stream_epoch"].(*numbers[int64]), byName["body"].(*texts), byName["at"].(*instants)
	r.tenant, r.id = byName["tenant"].(*texts), byName["id"].(*texts)
	r.match = newMatcher(byName)
	r.query = "SELECT " + strings.Join(names, ", ") + " FROM records WHERE idx >= %d AND idx < %d ORDER BY idx"
	var err error
	r.client, err = s.dial(ctx)
	return r, err
}

// dial connects as the DSN says, to the first server that answers.
func (db *DB) dial(ctx context.Context) (*ch.Client, error) {
	o := &db.options
	var errs []error
	for _, addr := range o.Addr {
		c, err := ch.Dial(ctx, ch.Options{Address: addr, Database: db.Database(), User: o.Auth.Username,
			Password:    o.Auth.Password,
			Compression: bulkCompression(addr), TLS: o.TLS, DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout,
			ClientName: "waybill",
			Settings:   settingsOf(o.Settings)})
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
	}
	return nil, db.explain("connecting", explainBulk(errors.Join(errs...)))
}

// bulkCompression saves the network, and on the same machine the processor.
func bulkCompression(addr string) ch.Compression {
	host, _, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && (host == "localhost" || ip != nil && ip.IsLoopback()) {
		return ch.CompressionDisabled
	}
	return ch.CompressionLZ4
}

func settingsOf(settings clickhouse.Settings) []ch.Setting {
	var out []ch.Setting
	for k, v := range settings {
		out = append(out, ch.Setting{Key: k, Value: fmt.Sprint(v), Important: true})
	}
	return out
}

// explainBulk makes an exception what the other driver calls one, so that it is
// explained alike.
func explainBulk(err error) error {
	var e *ch.Exception
	if errors.As(err, &e) {
		return &clickhouse.Exception{Code: int32(e.Code), Name: e.Name, Message: e.Message}
	}
	return err
}

// Close implements verify.ChunkReader.
func (r *bulkReader) Close() error {
	if r.client == nil {
		return nil
	}
	return r.client.Close()
}

// Chunk implements verify.ChunkReader.
func (r *bulkReader) Chunk(ctx context.Context, first, end uint64) (verify.Chunk, error) {
	c := verify.Chunk{First: first, End: end, Rows: make([]verify.Row, 0, end-first)}
	err := r.client.Do(ctx, ch.Query{
		Body:   fmt.Sprintf(r.query, first, end),
		Result: r.result,
		OnResult: func(context.Context, proto.Block) error {
			r.block(&c)
			return nil
		},
	})
	if err != nil {
		return c, r.db.explain(fmt.Sprintf("reading records %d to %d", first, end-1), explainBulk(err))
	}
	return c, r.tiles(ctx, &c)
}

// block takes the rows of one block.
func (r *bulkReader) block(c *verify.Chunk) {
	r.match.begin()
	for i, idx := range *r.idx.values {
		body := r.body.at(i)
		c.Rows = append(c.Rows, verify.Row{Idx: idx, Leaf: merkle.LeafHash((*r.epoch.values)[i], (*r.seq.values)[i], body)})
		if r.match.row(i, body) {
			continue
		}
		if d := r.compare(i, body); len(d) > 0 {
			c.Columns = append(c.Columns, verify.RowDifferences{Idx: idx, ID: string(r.id.at(i)), Columns: d})
		}
	}
}

// compare decodes the body of row i and compares every column with it. Of what
// is no record the row itself says when it was stored and whose it is: nothing
// else does, and its id holds the time too.
func (r *bulkReader) compare(i int, body []byte) []verify.Difference {
	row := Row{Idx: (*r.idx.values)[i], StreamSeq: (*r.seq.values)[i], StreamEpoch: (*r.epoch.values)[i], Body: body}
	row.Record, _ = ReadMessage(string(r.tenant.at(i)), body, row.StreamSeq, r.at.time(i))
	var out []verify.Difference
	for n, c := range r.readers {
		if stored, said, differs := c.differs(i, &row); differs {
			out = append(out, verify.Difference{Column: r.columns[n].name, Stored: stored, Ledger: said})
		}
	}
	return out
}

func (r *bulkReader) tiles(ctx context.Context, c *verify.Chunk) error {
	var number proto.ColUInt64
	var hashes proto.ColStr
	err := r.client.Do(ctx, ch.Query{
		Body: fmt.Sprintf("SELECT tile, hashes FROM tiles WHERE level = 0 AND tile >= %d AND tile < %d ORDER BY tile",
			c.First/merkle.TileWidth, (c.End+merkle.TileWidth-1)/merkle.TileWidth),
		Result: proto.Results{{Name: "tile", Data: &number}, {Name: "hashes", Data: &hashes}},
		OnResult: func(context.Context, proto.Block) error {
			for i, n := range number {
				c.Tiles = append(c.Tiles, verify.StoredTile{Number: n, Bytes: append([]byte(nil), hashes.RowBytes(i)...)})
			}
			return nil
		},
	})
	return r.db.explain("reading tiles", explainBulk(err))
}
