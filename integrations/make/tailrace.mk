# Gives targets their tags:    tailrace run -o run -- make -f Makefile -f "$(tailrace adapter make)"
#
# To be read last, so that the makefile's own SHELL and .SHELLFLAGS are known: they are what runs each line in the end.
# make expands .SHELLFLAGS anew for each line of a recipe, with the variables of its target, and takes it apart at blanks
# (with .ONESHELL quotes mean nothing), so names are percent-encoded. Where make isn't traced, nothing is changed.
# Rejected: `make SHELL=...`, which replaces the makefile's own, so that recipes for bash run in sh.

ifeq ($(findstring n,$(firstword -$(MAKEFLAGS))),)
tailrace_folder := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
tailrace_quote = '$(subst ','\'',$1)'
tailrace_begun := $(shell tailrace adapter make --begin \
  $(call tailrace_quote,$(firstword $(MAKEFILE_LIST))) '$(MAKE_VERSION)' \
  $(call tailrace_quote,$(wordlist 1,400,$(filter-out %.d,$(MAKEFILE_LIST)))))

ifneq ($(tailrace_begun),)
tailrace_nothing :=
tailrace_20 := $(tailrace_nothing) $(tailrace_nothing)
tailrace_23 := \#
tailrace_28 := (
tailrace_29 := )
tailrace_2C := ,
tailrace_3A := :
tailrace_3D := =
tailrace_1 = $(subst *,%2A,$(subst ?,%3F,$(subst [,%5B,$(subst ],%5D,$(subst {,%7B,$(subst },%7D,$(subst %,%25,$1)))))))
tailrace_2 = $(subst ',%27,$(subst ",%22,$(subst `,%60,$(subst \,%5C,$(subst $$,%24,$(subst !,%21,$(subst ~,%7E,$1)))))))
tailrace_3 = $(subst &,%26,$(subst ;,%3B,$(subst |,%7C,$(subst <,%3C,$(subst >,%3E,$(subst ^,%5E,$1))))))
tailrace_4 = $(subst $(tailrace_20),%20,$(subst $(tailrace_23),%23,$(subst $(tailrace_28),%28,$(subst $(tailrace_29),%29,$1))))
tailrace_5 = $(subst $(tailrace_2C),%2C,$(subst $(tailrace_3D),%3D,$(subst $(tailrace_3A),%3A,$1)))
tailrace_encode = $(call tailrace_5,$(call tailrace_4,$(call tailrace_3,$(call tailrace_2,$(call tailrace_1,$1)))))
# "=" before each: an empty word would be none.
tailrace_word = =$(tailrace_encode)

tailrace_shell := $(SHELL) $(.SHELLFLAGS)
tailrace_tags := $(call tailrace_word,$(firstword $(tailrace_begun)))
tailrace_rules := $(word 2,$(tailrace_begun))
tailrace_file := $(call tailrace_word,$(subst $(wordlist 1,2,$(tailrace_begun))$(tailrace_20),,$(tailrace_begun)))
# Names are compared encoded, with "^" in the place of "%", which is a pattern: keys. What is known of each is in
# variables, which have a "." in their names since make's `export` then leaves them alone:
#     tailrace.by.KEY     the tasks that made it; itself alone when its own recipe has begun
#     tailrace.via.KEY    the numbers of the rules without a recipe that it is a target of
#     tailrace.from.N     the prerequisites of such a rule
#     tailrace.gives.N    the tasks that these stand for, where tailrace.asked.N
tailrace_key = $(subst %,^,$(tailrace_encode))
tailrace_list = $(subst ^20,$(tailrace_20),$(tailrace_key))
# Those that have blanks.
tailrace_spaced :=
tailrace_space = $(if $(findstring ^20,$1),$(eval tailrace_spaced += $1))
tailrace_add = $(eval tailrace.by.$1 := $1)$(tailrace_space)
# A recipe need not name all prerequisites.
tailrace_few = $(if $(word 501,$1),,$1)

# tailrace_reached KEY DEPTH: the tasks that are over where KEY was waited for. A target whose recipe ran no shell passes
# on what it waited for. All that is over when another target's recipe begins, so it is looked up once. What calls itself
# does so by $(call), or make would end, and only as deep as make's stack allows, by the number of x in DEPTH.
tailrace_tens := xxxxxxxxxx
tailrace_deepest := $(tailrace_tens)$(tailrace_tens)$(tailrace_tens)$(tailrace_tens)$(tailrace_tens)
tailrace_reached = $(or $(tailrace.by.$1),$(if $(findstring $(tailrace_deepest),$2),,$(call tailrace_passed,$1,$2)))
tailrace_passed = $(sort $(foreach rule,$(tailrace.via.$1),$(call tailrace_given,$(rule),$2)))
tailrace_given = $(if $(tailrace.asked.$1),,$(call tailrace_ask,$1,$2))$(tailrace.gives.$1)
tailrace_ask = $(eval tailrace.asked.$1 := x)$(eval tailrace.gives.$1 := $(call tailrace_few,$(call tailrace_all,$(tailrace.from.$1),x$2)))
tailrace_all = $(sort $(foreach one,$1,$(call tailrace_reached,$(one),$2)))

# A prerequisite, and the tasks that it stands for, each after ":" and in a word of its own, unless they were told; ":"
# alone is the prerequisite itself.
tailrace_item = $1$(call tailrace_stands,$1,$(filter-out $(tailrace_told),$(call tailrace_reached,$1)))
tailrace_told :=
tailrace_anew = $(eval tailrace_told :=)
tailrace_stands = $(if $(word 1000,$(tailrace_told)),,$(if $2,$(tailrace_tell)))
tailrace_tell = $(eval tailrace_told += $2)$(patsubst :$1,:,$(addprefix :,$2))
# Of a list one word a hundred, as an argument of a program has at most 128 KiB.
tailrace_hundreds = $(if $1,=$(subst $(tailrace_20),$(tailrace_2C),$(wordlist 1,100,$1)) \
  $(call tailrace_hundreds,$(wordlist 101,3000,$1)))
tailrace_items = $(subst ^,%,$(call tailrace_hundreds,$(foreach one,$1,$(call tailrace_item,$(one)))))
tailrace_needs = $(call tailrace_items,$(call tailrace_list,$(tailrace_few))) .
# make separates names by blanks, which they may have themselves: those that may be meant.
tailrace_blank = $(call tailrace_items,$(foreach one,$(tailrace_spaced),$(if $(findstring $(one),$1),$(one)))) .
tailrace_first = $(if $(filter $1,$(tailrace.by.$1)),again,first $(call tailrace_word,$(CURDIR)) $(tailrace_begins))
tailrace_begins = $(tailrace_anew)$(call tailrace_blank,$(call tailrace_key,$(call tailrace_few,$^ $|)))$(tailrace_anew) \
  $(call tailrace_needs,$^) $(call tailrace_needs,$|) $(call tailrace_listed,$(tailrace_also_of))$(tailrace_add)
# The further targets of its recipe.
tailrace_listed = =$(subst $(tailrace_20),%0A,$(subst ^,%,$(strip $1)))
tailrace_also_of :=
# The pattern of a target's rule: make tells the stem alone, which a name may have at several places.
tailrace_try = $(subst $1$*$2,$1%$2,/$@.)
tailrace_or = $(if $(subst /$@.,,$1),$1,$2)
tailrace_found = $(call tailrace_or,$(call tailrace_try,/,.),$(call tailrace_or,$(call tailrace_try,,.),$(call tailrace_try,,)))
tailrace_stage = $(if $*,$(patsubst /%.,%,$(tailrace_found)),$@)

tailrace_words = $(call tailrace_word,$@) $(call tailrace_word,$(tailrace_stage)) $(call tailrace_first,$(call tailrace_key,$@))

ifneq ($(tailrace_rules),=)
# Rules that make several targets by one recipe (rules.py finds them): of a pattern's rule tailrace_rule_N and
# tailrace_from_N are its patterns and those of its prerequisites, of a grouped one tailrace_rule_N its targets. Those
# without a recipe come with a number (passing.py).
define tailrace_0A


endef
tailrace_doubt = $(strip $(foreach one,$2,$(findstring $$,$(value $(one)))) \
  $(foreach one,$1,$(if $(filter file override,$(origin $(one))),,$(findstring $$,$(value $(one))))))
# Names as make reads them in a makefile, with "\ " and "\:", to keys.
tailrace_text = $(call tailrace_encode,$(strip $1))
tailrace_split = $(subst %20,$(tailrace_20),$(subst %5C%3A,%3A,$(subst %5C%20,~,$(tailrace_text))))
tailrace_keys = $(patsubst ./%,%,$(subst %,^,$(subst ~,%20,$(tailrace_split))))
# Prerequisites, also order-only ones.
tailrace_sources = $(subst ^7C,$(tailrace_20),$(call tailrace_keys,$(tailrace_from)))
tailrace_via = $(eval tailrace.via.$1 += $2)$(tailrace_space)
tailrace_passing_rule = $(eval tailrace.from.$1 := $(tailrace_sources)) \
  $(foreach one,$(call tailrace_keys,$(tailrace_targets)),$(call tailrace_via,$(one),$1))
# Of a static pattern each target has prerequisites of its own.
tailrace_static_rule = $(eval tailrace_now := $(subst ^25,%,$(tailrace_sources))) \
  $(foreach one,$(call tailrace_keys,$(tailrace_targets)),$(call tailrace_via,$(one),$1.$(one)) \
  $(eval tailrace.from.$1.$(one) := $(call tailrace_stem,$(one),$(subst ^25,%,$(call tailrace_keys,$(tailrace_of))))))
tailrace_stem = $(foreach from,$(tailrace_now),$(patsubst $2,$(from),$(filter $2,$1)))
tailrace_number :=
tailrace_patterns :=
tailrace_grouped :=
tailrace_keep = $(eval tailrace_number += x)$(eval tailrace_rule_$(words $(tailrace_number)) := $(tailrace_now))
tailrace_pattern = $(eval tailrace_patterns += $(words $(tailrace_number))) \
  $(eval tailrace_from_$(words $(tailrace_number)) := $(call tailrace_keys,$(tailrace_from)))
tailrace_group = $(foreach one,$(tailrace_now),$(eval tailrace_grouped += $(one)>$(words $(tailrace_number))))
tailrace_several = $(eval tailrace_now := $(call tailrace_keys,$(tailrace_targets)))$(word 2,$(tailrace_now))
tailrace_others = $(strip $(foreach one,$(tailrace_now),$(if $(findstring ^25,$(one)),,$(one))))
tailrace_pattern_rule = $(if $(tailrace_several),$(if $(tailrace_others),,$(tailrace_keep)$(tailrace_pattern)))
tailrace_either = $(if $(tailrace_others),$(tailrace_group),$(tailrace_pattern))
tailrace_grouped_rule = $(if $(tailrace_several),$(tailrace_keep)$(tailrace_either))
$(eval $(subst %25,%,$(subst %20,$(tailrace_20),$(subst %0A,$(tailrace_0A),$(patsubst =%,%,$(tailrace_rules))))))

# A pattern with the stem, which may begin with folders: where the pattern has none they come first.
tailrace_fill = $(if $(findstring /,$1),$(subst ^25,$2,$1),$(tailrace_in)$(subst ^25,$(notdir $2),$1))
tailrace_in = $(if $(findstring /,$2),$(dir $2))
# The files of a list, each between blanks, without folders: VPATH changes those of prerequisites.
tailrace_files = ^20$(subst /,^20,$(tailrace_key))^20
tailrace_name = $(notdir $(subst ^25,$2,$1))
tailrace_lacks = $(strip $(foreach one,$1,$(if $(findstring ^20$(call tailrace_name,$(one),$2)^20,$3),,x)))
tailrace_of_rule = $(if $(filter $1,$2),$(filter-out $1,$2))
tailrace_of_pattern = $(foreach rule,$(tailrace_patterns),$(if $(call tailrace_lacks,$(tailrace_from_$(rule)),$2,$3),, \
  $(call tailrace_of_rule,$1,$(foreach one,$(tailrace_rule_$(rule)),$(call tailrace_fill,$(one),$2)))))
tailrace_rules_of = $(patsubst $1>%,%,$(filter $1>%,$(tailrace_grouped)))
tailrace_of_group = $(foreach rule,$(tailrace_rules_of),$(filter-out $1,$(tailrace_rule_$(rule))))
tailrace_also = $(sort $(call tailrace_of_group,$1) \
  $(if $*,$(call tailrace_of_pattern,$1,$(call tailrace_key,$*),$(call tailrace_files,$^))))
tailrace_mate = $(if $(filter $1,$(tailrace.by.$1)),,$(eval tailrace.by.$1 := $(tailrace.by.$1) $2)$(tailrace_space))
tailrace_also_of = $(foreach one,$(tailrace_also),$(call tailrace_mate,$(one),$1)$(one))
endif

# make tries to remake each makefile by the makefile's own patterns; this one is an installation's. It is never the
# default goal, and names that would not be one target are left alone.
ifneq ($(.DEFAULT_GOAL),)
ifeq ($(subst =$(lastword $(MAKEFILE_LIST)),,$(call tailrace_word,$(lastword $(MAKEFILE_LIST)))),)
$(lastword $(MAKEFILE_LIST)): ;
endif
endif

# A makefile that exports all variables would have them expanded for each recipe.
unexport $(filter tailrace_%,$(.VARIABLES))
SHELL := $(tailrace_folder)/sh
.SHELLFLAGS = --tailrace $(tailrace_tags) $(tailrace_file) $(if $@,$(tailrace_words),= = again) $(tailrace_shell)
endif
endif
