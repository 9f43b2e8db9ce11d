package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/waybill-dev/waybill/internal/platform/wholefile"
)

// bootUser is whom the library's engine runs its own statements as.
const bootUser = "default"

// layout names the files below an engine's directory.
type layout struct{ dir string }

func (l layout) config() string      { return filepath.Join(l.dir, "config.xml") }
func (l layout) users() string       { return filepath.Join(l.dir, "users.xml") }
func (l layout) extraConfig() string { return filepath.Join(l.dir, "config.d", "extra.xml") }
func (l layout) extraUsers() string  { return filepath.Join(l.dir, "users.d", "extra.xml") }
func (l layout) data() string        { return filepath.Join(l.dir, "data") }
func (l layout) log() string         { return filepath.Join(l.dir, "engine.log") }
func (l layout) stderr() string      { return filepath.Join(l.dir, "stderr.log") }
func (l layout) lock() string        { return filepath.Join(l.dir, "engine.lock") }

// write puts the configuration in place. ClickHouse merges config.d over
// config.xml and users.d over users.xml.
func (l layout) write(o Options, a addresses) error {
	for _, file := range []struct{ path, text string }{
		{l.config(), configXML(l, o, a)},
		{l.users(), usersXML(o)},
		{l.extraConfig(), o.ConfigXML},
		{l.extraUsers(), o.UsersXML},
	} {
		if file.text == "" { // perhaps one is left of an earlier run
			if err := os.Remove(file.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("engine configuration: %w", err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file.path), 0o700); err != nil {
			return fmt.Errorf("engine configuration: %w", err)
		}
		if err := os.WriteFile(file.path, []byte(file.text), 0o600); err != nil {
			return fmt.Errorf("engine configuration: %w", err)
		}
	}
	if o.Location.Library != "" {
		return l.makeSystemDurable()
	}
	return nil
}

// makeSystemDurable makes the library's database "system" one that remembers its
// tables. Left to itself the library keeps it in memory: after a restart
// query_log's files are there and its table is not, the table cannot be made
// again, and SYSTEM FLUSH LOGS hangs. A server does the same by itself.
func (l layout) makeSystemDurable() error {
	metadata := filepath.Join(l.data(), "metadata")
	if err := os.MkdirAll(metadata, 0o700); err != nil {
		return fmt.Errorf("engine data: %w", err)
	}
	file := filepath.Join(metadata, "system.sql")
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	statement := fmt.Sprintf("ATTACH DATABASE _ UUID '%s' ENGINE = Atomic\n", uuid.New())
	// The engine would refuse to start on half a file.
	if err := wholefile.Replace(file, []byte(statement), 0o600); err != nil {
		return fmt.Errorf("engine data: %w", err)
	}
	return nil
}

// configXML is sized for a small machine beside the rest of Waybill: a
// background pool of two threads, small caches. Of the system
// logs only query_log has a section here, which is what turns one on; a week of
// it is kept: it answers who read the ledger.
// Three of the merge_tree settings must stay below the pool's size, or the server
// refuses to start. Parts that were merged stay for a minute rather than for
// eight: as long as the kernel may keep the new one from the disk, twice.
func configXML(l layout, o Options, a addresses) string {
	memory := "<max_server_memory_usage_to_ram_ratio>0.5</max_server_memory_usage_to_ram_ratio>"
	if o.MemoryLimit > 0 {
		memory = fmt.Sprintf("<max_server_memory_usage>%d</max_server_memory_usage>", o.MemoryLimit)
	}
	return fmt.Sprintf(`<clickhouse>
  <logger><level>warning</level><log>%[1]s</log><size>10M</size><count>3</count></logger>
  <path>%[2]s/</path>
  <tmp_path>%[2]s/tmp/</tmp_path>
  <user_files_path>%[2]s/user_files/</user_files_path>
  <format_schema_path>%[2]s/format_schemas/</format_schema_path>
  <listen_host>%[3]s</listen_host>
  <tcp_port>%[4]d</tcp_port>
  <http_port>%[5]d</http_port>
  <users_config>%[6]s</users_config>
  <user_directories><users_xml><path>%[6]s</path></users_xml></user_directories>
  <timezone>UTC</timezone>
  %[8]s
  %[7]s
  <mark_cache_size>134217728</mark_cache_size>
  <index_mark_cache_size>33554432</index_mark_cache_size>
  <uncompressed_cache_size>0</uncompressed_cache_size>
  <background_pool_size>2</background_pool_size>
  <background_schedule_pool_size>8</background_schedule_pool_size>
  <background_common_pool_size>2</background_common_pool_size>
  <background_fetches_pool_size>1</background_fetches_pool_size>
  <background_move_pool_size>1</background_move_pool_size>
  <background_message_broker_schedule_pool_size>1</background_message_broker_schedule_pool_size>
  <background_distributed_schedule_pool_size>1</background_distributed_schedule_pool_size>
  <tables_loader_foreground_pool_size>2</tables_loader_foreground_pool_size>
  <tables_loader_background_pool_size>2</tables_loader_background_pool_size>
  <merge_tree>
    <number_of_free_entries_in_pool_to_execute_mutation>2</number_of_free_entries_in_pool_to_execute_mutation>
    <number_of_free_entries_in_pool_to_lower_max_size_of_merge>2</number_of_free_entries_in_pool_to_lower_max_size_of_merge>
    <number_of_free_entries_in_pool_to_execute_optimize_entire_partition>2</number_of_free_entries_in_pool_to_execute_optimize_entire_partition>
    <old_parts_lifetime>60</old_parts_lifetime>
  </merge_tree>
  <query_log>
    <database>system</database><table>query_log</table>
    <partition_by>event_date</partition_by><ttl>event_date + INTERVAL 7 DAY DELETE</ttl>
    <flush_interval_milliseconds>7500</flush_interval_milliseconds>
  </query_log>
</clickhouse>
`, text(l.log()), text(l.data()), text(a.listenHost()), a.native.Port, a.http.Port, text(l.users()), memory,
		guardXML(a))
}

// usersXML undoes the defaults in which clickhouse-local differs from a server.
func usersXML(o Options) string {
	sum := sha256.Sum256([]byte(o.Password))
	const loopback = "<networks><ip>127.0.0.1</ip><ip>::1</ip></networks><profile>default</profile><quota>default</quota>"
	const all = "<access_management>1</access_management><named_collection_control>1</named_collection_control>"
	users := fmt.Sprintf("<%[1]s><password></password>%[2]s%[3]s</%[1]s>", bootUser, loopback, all)
	if o.Password != "" {
		users = fmt.Sprintf("<%[1]s><password></password>%[2]s<grants><query>GRANT SYSTEM LISTEN ON "+
			"*.*</query></grants></%[1]s>\n    "+
			"<%[3]s><password_sha256_hex>%[4]s</password_sha256_hex>%[2]s%[5]s</%[3]s>",
			bootUser, loopback, o.User, hex.EncodeToString(sum[:]), all)
	}
	return fmt.Sprintf(`<clickhouse>
  <profiles><default>
    <implicit_select>0</implicit_select>
    <allow_introspection_functions>0</allow_introspection_functions>
    <storage_file_read_method>pread</storage_file_read_method>
    <output_format_arrow_use_native_writer>0</output_format_arrow_use_native_writer>
    <log_queries>1</log_queries>
    <add_http_cors_header>0</add_http_cors_header>
    <constraints><add_http_cors_header><const/></add_http_cors_header></constraints>
  </default></profiles>
  <quotas><default/></quotas>
  <users>
    %s
  </users>
</clickhouse>
`, users)
}

// text escapes s for an XML element.
func text(s string) string {
	var b strings.Builder
	// A strings.Builder never fails.
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}
