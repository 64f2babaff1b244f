# Installs and uninstalls the program: part of the Makefile, and the Makefile of the static archive.

PREFIX ?= /usr/local
BIN ?= $(or $(addprefix ./,$(wildcard trimtab)),target/release/trimtab)
ROOT = $(DESTDIR)$(PREFIX)
CONFIG = $(DESTDIR)/etc/trimtab/trimtab.toml
COMPLETIONS = bash:bash-completion/completions/trimtab zsh:zsh/site-functions/_trimtab fish:fish/vendor_completions.d/trimtab.fish
UNITS = $(wildcard packaging/systemd/*)
INIT = $(DESTDIR)/etc/init.d/trimtab
# Installs the script of OpenRC, if that is here. Packagers of a system with OpenRC set it to yes.
OPENRC ?= $(if $(DESTDIR),,$(wildcard /sbin/openrc-run))

# Enables and starts nothing. Writes the program's path into units and script.
install:
	@test -x "$(BIN)" || $(CARGO) build --release --locked -p trimtab
	install -D -m 755 "$(BIN)" "$(ROOT)/bin/trimtab"
	install -d "$(ROOT)/lib/systemd/system"
	for unit in $(UNITS); do sed 's,/usr/bin/trimtab,$(PREFIX)/bin/trimtab,' $$unit > "$(ROOT)/lib/systemd/system/$${unit##*/}" || exit 1; done
	if [ -n "$(OPENRC)" ]; then install -D -m 755 packaging/openrc/trimtab "$(INIT)" && sed -i 's,/usr/bin/trimtab,$(PREFIX)/bin/trimtab,' "$(INIT)"; fi
	for pair in $(COMPLETIONS); do file="$(ROOT)/share/$${pair#*:}"; install -d "$${file%/*}" && "$(BIN)" completions $${pair%%:*} > "$$file" || exit 1; done
	install -D -m 644 -t "$(ROOT)/share/trimtab/mixin" packaging/mixin/*.yaml packaging/mixin/dashboards/*.json
	install -m 644 packaging/example.toml "$(ROOT)/share/trimtab"
	install -d "$(ROOT)/share/man/man1" && "$(BIN)" manual "$(ROOT)/share/man/man1"
	sed -i -e '/^\.SH EXTRA$$/{N;s/.*\nExamples:/.SH EXAMPLES\n.nf/;s/EXTRA/NOTES/}' -e '/^\.SH EXAMPLES/,/^$$/s/^$$/.fi\n/' "$(ROOT)"/share/man/man1/trimtab*.1
	test -e "$(CONFIG)" || install -D -m 644 packaging/trimtab.toml "$(CONFIG)"

uninstall:
	rm -f "$(ROOT)/bin/trimtab"
	for unit in $(notdir $(UNITS)); do rm -f "$(ROOT)/lib/systemd/system/$$unit"; done
	for pair in $(COMPLETIONS); do rm -f "$(ROOT)/share/$${pair#*:}"; done
	rm -rf "$(ROOT)/share/trimtab"
	if grep -qs '"$(PREFIX)/bin/trimtab"' "$(INIT)"; then rm -f "$(INIT)"; fi
	rm -f "$(ROOT)"/share/man/man1/trimtab.1 "$(ROOT)"/share/man/man1/trimtab-*.1
	if cmp -s packaging/trimtab.toml "$(CONFIG)"; then rm -f "$(CONFIG)"; fi
	cd "$(ROOT)/share" && rmdir -p $(foreach pair,$(COMPLETIONS),$(dir $(lastword $(subst :, ,$(pair))))) 2>/dev/null || :
	cd "$(ROOT)/lib" && rmdir -p systemd/system 2>/dev/null || :
	rmdir "$(DESTDIR)/etc/trimtab" 2>/dev/null || :
