-- TATP: subscribers, their access rights, facilities, and where calls are forwarded.
create table subscriber (
  s_id integer primary key, sub_nbr varchar(15) not null unique,
  bits smallint[] not null, hexes smallint[] not null, bytes smallint[] not null,
  msc_location integer not null, vlr_location integer not null);
create table access_info (
  s_id integer not null references subscriber, ai_type smallint not null,
  data1 smallint not null, data2 smallint not null, data3 char(3) not null, data4 char(5) not null,
  primary key (s_id, ai_type));
create table special_facility (
  s_id integer not null references subscriber, sf_type smallint not null,
  is_active boolean not null, error_cntrl smallint not null, data_a smallint not null, data_b char(5) not null,
  primary key (s_id, sf_type));
create table call_forwarding (
  s_id integer not null, sf_type smallint not null, start_time smallint not null,
  end_time smallint not null, numberx varchar(15) not null,
  primary key (s_id, sf_type, start_time),
  foreign key (s_id, sf_type) references special_facility);

select setseed(0.5);
insert into subscriber
select id, lpad(id::text, 15, '0'),
  array(select (random() * id)::int % 2 from generate_series(1, 10)),
  array(select (random() * id)::int % 16 from generate_series(1, 10)),
  array(select (random() * id)::int % 256 from generate_series(1, 10)),
  (random() * 2147483646)::int, (random() * 2147483646)::int
from generate_series(1, :subscribers) id;

-- One to four types each.
insert into access_info
select s_id, type, (random() * 255)::int, (random() * 255)::int, 'ABC', 'ABCDE'
from (select s_id, ceil(random() * 4)::int types from subscriber) s, generate_series(1, types) type;
insert into special_facility
select s_id, type, random() < 0.85, (random() * 255)::int, (random() * 255)::int, 'ABCDE'
from (select s_id, ceil(random() * 4)::int types from subscriber) s, generate_series(1, types) type;

-- None to three of the day's three parts.
insert into call_forwarding
select s_id, sf_type, start, start + ceil(random() * 8)::int, lpad((random() * 999999)::int::text, 15, '0')
from special_facility, (values (0), (8), (16)) parts(start)
where random() < 0.5;

vacuum analyze;
