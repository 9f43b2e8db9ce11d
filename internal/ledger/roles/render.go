package roles

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// User is a role's user in a users file.
type User struct {
	Role
	// Name, if it is not the role's.
	As string
	// Password, or PasswordEnv: the variable of ClickHouse that holds it. Neither: none.
	Password, PasswordEnv string
	// Networks from which it is let in.
	Networks []string
	// More grants than the role's, as statements.
	More []string
}

func (u User) name() string {
	if u.As != "" {
		return u.As
	}
	return u.Name
}

// Loopback lets in this machine alone.
func Loopback() []string { return []string{"127.0.0.1", "::1"} }

// Anywhere leaves that to the network.
func Anywhere() []string { return []string{"::/0"} }

// UsersXML is a ClickHouse users file with those users, for a database.
func UsersXML(database string, users []User) string {
	var b strings.Builder
	b.WriteString("<clickhouse>\n  <profiles>\n")
	for _, u := range users {
		fmt.Fprintf(&b, "    <waybill_%s replace=\"replace\">\n      <profile>default</profile>\n", u.name())
		for _, l := range u.Limits {
			fmt.Fprintf(&b, "      <%[1]s>%[2]s</%[1]s>\n", l.Setting, l.Value)
		}
		b.WriteString("      <constraints>\n")
		for _, l := range u.Limits {
			if l.Max == "" {
				fmt.Fprintf(&b, "        <%[1]s><const/></%[1]s>\n", l.Setting)
			} else {
				fmt.Fprintf(&b, "        <%[1]s><min>%[2]s</min><max>%[3]s</max></%[1]s>\n", l.Setting, l.Min, l.Max)
			}
		}
		fmt.Fprintf(&b, "      </constraints>\n    </waybill_%s>\n", u.name())
	}
	b.WriteString("  </profiles>\n  <users>\n")
	for _, u := range users {
		fmt.Fprintf(&b, "    <!-- %s -->\n    <%s replace=\"replace\">\n", u.Purpose, u.name())
		switch {
		case u.PasswordEnv != "":
			fmt.Fprintf(&b, "      <password from_env=%q/>\n", u.PasswordEnv)
		case u.Password != "":
			sum := sha256.Sum256([]byte(u.Password))
			fmt.Fprintf(&b, "      <password_sha256_hex>%s</password_sha256_hex>\n", hex.EncodeToString(sum[:]))
		default:
			b.WriteString("      <password></password>\n")
		}
		b.WriteString("      <networks>")
		for _, n := range u.Networks {
			fmt.Fprintf(&b, "<ip>%s</ip>", n)
		}
		fmt.Fprintf(&b, "</networks>\n      <profile>waybill_%s</profile>\n      <quota>default</quota>\n      <grants>\n",
			u.name())
		for _, g := range append(u.Statements(database, ""), u.More...) {
			fmt.Fprintf(&b, "        <query>%s</query>\n", g)
		}
		fmt.Fprintf(&b, "      </grants>\n    </%s>\n", u.name())
	}
	b.WriteString("  </users>\n</clickhouse>\n")
	return b.String()
}

// SQL makes the roles, their profiles and their users on a server, for whoever
// may manage access there. It can be run again.
func SQL(database string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `-- Who may do what with the ledger in database %[1]s. Made by: waybill ledger roles --print-sql
-- Run it as a user with access management, with each password in place of {…}:
--   clickhouse-client --multiquery < roles.sql
-- It can be run again: it adds what is missing.
-- Not in it, and left to you: give the user "default" a password, or take it away.
`, database)
	for _, r := range All() {
		fmt.Fprintf(&b, "\n-- %s: %s\n", r.Name, r.Purpose)
		fmt.Fprintf(&b, "CREATE SETTINGS PROFILE OR REPLACE waybill_%s SETTINGS\n", r.Name)
		for i, l := range r.Limits {
			sep := ","
			if i == len(r.Limits)-1 {
				sep = ";"
			}
			value := l.Value
			if strings.Trim(value, "0123456789") != "" {
				value = "'" + value + "'"
			}
			if l.Max == "" {
				fmt.Fprintf(&b, "    %s = %s CONST%s\n", l.Setting, value, sep)
			} else {
				fmt.Fprintf(&b, "    %s = %s MIN %s MAX %s%s\n", l.Setting, value, l.Min, l.Max, sep)
			}
		}
		fmt.Fprintf(&b, "CREATE USER IF NOT EXISTS %[1]s IDENTIFIED WITH sha256_password BY '{%[1]s password}' SETTINGS "+
			"PROFILE 'waybill_%[1]s';\n", r.Name)
		fmt.Fprintf(&b, "ALTER USER %[1]s SETTINGS PROFILE 'waybill_%[1]s';\n", r.Name)
		for _, g := range r.Statements(database, r.Name) {
			b.WriteString(g + ";\n")
		}
	}
	return b.String()
}
