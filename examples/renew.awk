# Renews the tables of a page: awk -F'\t' -f examples/renew.awk TABLES PAGE prints the page. A line of TABLES is the name of a table, a tab
# and a line of the table. A table replaces the text between the marks "<!-- begin NAME -->" and "<!-- end NAME -->" of the page.
# Tables that are not in TABLES stay.
NR == FNR { text[$1] = text[$1] $2 "\n"; next }
/^<!-- begin .* -->$/ {
  if (name != "") wrong = wrong " no end of " name ";"
  name = substr($0, 12, length($0) - 15)
  print $0
  if (name in text) printf "%s", text[name]
  placed[name]
  next
}
/^<!-- end .* -->$/ {
  if ($0 != "<!-- end " name " -->") wrong = wrong " no begin of " $0 ";"
  name = ""
}
name == "" || !(name in text)
END {
  if (name != "") wrong = wrong " no end of " name ";"
  for (made in text) if (!(made in placed)) wrong = wrong " the page has no marks of " made ";"
  if (wrong != "") { print FILENAME ":" wrong | "cat >&2"; exit 1 }
}
