/* store_schema.h - the SQL of a profile file, version 3; doc/format.md explains it. Private to this
 * room. */
#ifndef STORE_SCHEMA_H
#define STORE_SCHEMA_H

#define PROFILE_APPLICATION_ID 0x54414c59 /* "TALY" */

extern const char store_schema[];

#endif
