package roles

import (
	"encoding/xml"
	"path/filepath"
	"strings"
)

// DeployXML is the users file of compose.yaml: the passwords come from the
// environment of the server, who may connect from the networks between containers.
func DeployXML(database string) string {
	var users []User
	for _, r := range All() {
		users = append(users, User{Role: r, PasswordEnv: "CLICKHOUSE_" + strings.ToUpper(r.Name) + "_PASSWORD",
			Networks: Anywhere()})
	}
	text := UsersXML(database, users)
	text = strings.Replace(text, "  <users>\n", `  <users>
    <!-- Whoever is inside the container, and nobody else. -->
    <default><networks replace="replace"><ip>127.0.0.1</ip><ip>::1</ip></networks></default>
`, 1)
	return strings.Replace(text, "<clickhouse>\n", `<clickhouse>
  <!-- Merged over the server's users. Made by waybill ledger roles, with its flag print-xml. -->
`, 1)
}

// EmbeddedXML is the users file of the embedded engine, beside its owner.
func EmbeddedXML(database string, passwords map[string]string) string {
	users := []User{Anonymous()}
	for _, r := range All() {
		users = append(users, User{Role: r, Password: passwords[r.Name], Networks: Loopback()})
	}
	return UsersXML(database, users)
}

// BackupsDir is the one place to which the embedded engine in dir may write a backup.
func BackupsDir(dir string) string { return filepath.Join(dir, "backups") }

// EngineXML is what the embedded engine in dir needs besides its users. What a
// server's own configuration has switched on, the library's default has not:
// without it any user may read every system table.
func EngineXML(dir string) string {
	var path strings.Builder
	_ = xml.EscapeText(&path, []byte(BackupsDir(dir))) // a strings.Builder never fails
	return `<clickhouse>
  <backups><allowed_path>` + path.String() + `</allowed_path></backups>
  <access_control_improvements>
    <select_from_system_db_requires_grant>true</select_from_system_db_requires_grant>
    <select_from_information_schema_requires_grant>true</select_from_information_schema_requires_grant>
    <users_without_row_policies_can_read_rows>true</users_without_row_policies_can_read_rows>
    <settings_constraints_replace_previous>true</settings_constraints_replace_previous>
    <table_engines_require_grant>true</table_engines_require_grant>
  </access_control_improvements>
</clickhouse>
`
}
