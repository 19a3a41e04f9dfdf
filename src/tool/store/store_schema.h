/* store_schema.h - the SQL of a profile file, version STORE_VERSION (store.h); doc/format.md explains it.
 * Private to this module. */
#ifndef STORE_SCHEMA_H
#define STORE_SCHEMA_H

#define STORE_APPLICATION_ID 0x54414c59 /* "TALY" */

extern const char store_schema[];

#endif
